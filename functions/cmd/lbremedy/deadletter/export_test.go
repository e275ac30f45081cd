package deadletter

type (
	Letter = letter
	Fate   = fate
)

// Exports for the tests of this package.
var (
	NewLetter   = newLetter
	ListLetters = listLetters
	Refusal     = refusal
	VersionIn   = versionIn
)
