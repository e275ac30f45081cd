package root

// Commands returns the commands of the program, for the tests.
var Commands = rootCommand
