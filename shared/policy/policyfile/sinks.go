package policyfile

import (
	"fmt"

	"github.com/lbremedy/lbremedy/shared/config"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/regex"
)

// SinkName is the form of a sink's name.
const SinkName = `^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`

var sinkName = regex.New(SinkName)

func checkSinks(d *config.Document, sinks []policy.Sink, classes []string) {
	seen := map[string]bool{}
	for i, s := range sinks {
		at := fmt.Sprintf("tell[%d]", i)
		switch {
		case s.Name == "":
			d.Fail(at, "it has no name; give it one that stays, since its tickets are known by it")
		case !sinkName().MatchString(s.Name):
			d.Fail(at+".name", "%q is not 1 to 32 lower-case letters, digits and inner hyphens", s.Name)
		case seen[s.Name]:
			d.Fail(at+".name", "another sink is called %s, too", s.Name)
		}
		seen[s.Name] = true
		s.Check(classes, func(field, format string, args ...any) { d.Fail(at+"."+field, format, args...) })
	}
}
