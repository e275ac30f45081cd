package deadletter

type (
	Letter = letter
	Fate   = fate
)

// What the tests of this package call beside its commands.
var (
	NewLetter   = newLetter
	ListLetters = listLetters
	ShowLetter  = showLetter
	Revived     = revived
	VersionIn   = versionIn
)

// Whole returns the letter with its own headers and data.
func (l letter) Whole() letter { return l.whole() }
