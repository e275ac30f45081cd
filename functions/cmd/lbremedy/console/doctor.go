package console

import (
	"net/http"
	"slices"

	"github.com/lbremedy/lbremedy/shared/doctor"
)

type doctorBody struct {
	view
	Groups  []found
	More    int // groups not listed
	Unknown []unknown
	Counts  map[string]int // of findings, by severity
}

type found struct {
	About    doctor.About
	Severity string // the worst
	Findings []doctor.Finding
	Case     *summary // the Service's open case; nil: none
}

type unknown struct {
	doctor.Unknown
	Checks []string
}

// pending is the check whose finding an open case explains better.
const pending = "pending"

func (s *server) doctor(*http.Request) (page, error) {
	b := doctorBody{view: s.reading.now(), Counts: map[string]int{}}
	if b.At().IsZero() {
		return page{Title: word("Doctor"), name: "doctor", Body: b}, nil
	}
	open := map[string]*summary{}
	for _, c := range s.index.newest(func(c *summary) bool {
		return c.Status.Open() && c.Service.Kind == "" && (s.p.Cluster == "" || c.Cluster == s.p.Cluster)
	}) {
		open[c.Service.String()] = c
	}
	b.Groups = groupsOf(b.Result.Findings, open)
	for _, f := range b.Result.Findings {
		b.Counts[f.Severity.String()]++
	}
	b.More = max(0, len(b.Groups)-listed)
	b.Groups = b.Groups[:min(len(b.Groups), listed)]
	for _, u := range b.Result.Unknown {
		i := slices.IndexFunc(b.Unknown, func(have unknown) bool { return have.Why.String() == u.Why.String() && have.About == u.About })
		if i < 0 {
			b.Unknown = append(b.Unknown, unknown{u, []string{u.Check}})
			continue
		}
		b.Unknown[i].Checks = append(b.Unknown[i].Checks, u.Check)
	}
	b.Unknown = b.Unknown[:min(len(b.Unknown), listed)]
	return page{Title: word("Doctor"), name: "doctor", Body: b}, nil
}

// groupsOf groups findings by object, the worst first, each Service with its open case. It omits findings that the case explains better.
func groupsOf(findings []doctor.Finding, open map[string]*summary) []found {
	var groups []found
	for _, f := range findings {
		i := slices.IndexFunc(groups, func(g found) bool { return g.About == f.About })
		if i < 0 {
			g := found{About: f.About, Severity: f.Severity.String()}
			if f.About.Kind == doctor.Service {
				g.Case = open[f.About.String()]
			}
			groups, i = append(groups, g), len(groups)
		}
		if g := &groups[i]; f.Check != pending || g.Case == nil {
			g.Findings = append(g.Findings, f)
		}
	}
	return groups
}
