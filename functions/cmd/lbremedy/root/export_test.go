package root

var Commands = rootCommand
