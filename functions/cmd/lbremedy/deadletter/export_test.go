package deadletter

type (
	Letter = letter
	Fate   = fate
)

// What the tests of this package call beside its commands.
var (
	NewLetter   = newLetter
	ListLetters = listLetters
	Revived     = revived
	VersionIn   = versionIn
)
