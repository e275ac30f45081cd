package console

import (
	"net/http"
	"slices"
	"strings"

	"github.com/lbremedy/lbremedy/shared/doctor"
)

// A balancersBody is what the list of load balancers shows.
type balancersBody struct {
	glance
	Query string
	Rows  []*balanced
	Sheet sheet
}

func (s *server) balancers(r *http.Request) (page, error) {
	b := balancersBody{glance: s.reading.now(), Query: r.URL.Query().Get("q")}
	if len(b.Services) > 0 {
		words := strings.Fields(strings.ToLower(b.Query))
		list := b.Services
		if len(words) > 0 {
			list = slices.DeleteFunc(slices.Clone(list), func(x *balanced) bool {
				return !holds(words, x.Namespace+"/"+x.Name, x.ID, x.Address, strings.Join(x.VSwitches, " "))
			})
		}
		b.Rows, b.Sheet = sheetOf(r, list)
	}
	return page{Title: word("Load balancers"), name: "balancers", Body: b}, nil
}

// A balancerBody is what the page of a load balancer shows.
type balancerBody struct {
	Read glance
	balanced
	Cases []*past
}

func (s *server) balancer(r *http.Request) (page, error) {
	b := balancerBody{Read: s.reading.now()}
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	if all := b.Read.Services; !b.Read.At().IsZero() {
		i := slices.IndexFunc(all, func(x *balanced) bool { return x.Namespace == namespace && x.Name == name })
		if i < 0 {
			return page{}, errNoPage
		}
		b.balanced = *all[i]
	}
	b.Namespace, b.Name = namespace, name
	b.Cases = s.book.newest(func(c *past) bool {
		return c.Service.Kind == "" && c.Service.Namespace == namespace && c.Service.Name == name && (s.p.Cluster == "" || c.Cluster == s.p.Cluster)
	})
	return page{Title: namespace + "/" + name, name: "balancer", Body: b}, nil
}

// A doctorBody is what the page of the doctor shows.
type doctorBody struct {
	glance
	Checks  []found
	Unknown []unknown
	Counts  map[string]int // of findings, by severity
}

// A found is what a check found.
type found struct {
	Check, Severity string
	Findings        []*doctor.Finding
	More            int
}

// All returns how many findings there are.
func (f found) All() int { return len(f.Findings) + f.More }

// An unknown is why checks could tell nothing of something.
type unknown struct {
	doctor.Unknown
	Checks []string
}

func (s *server) doctor(*http.Request) (page, error) {
	b := doctorBody{glance: s.reading.now(), Counts: map[string]int{}}
	if b.At().IsZero() {
		return page{Title: word("Doctor"), name: "doctor", Body: b}, nil
	}
	for _, f := range b.glance.Findings { // the worst first
		b.Counts[f.Severity.String()]++
		i := slices.IndexFunc(b.Checks, func(c found) bool { return c.Check == f.Check && c.Severity == f.Severity.String() })
		if i < 0 {
			b.Checks, i = append(b.Checks, found{Check: f.Check, Severity: f.Severity.String()}), len(b.Checks)
		}
		if c := &b.Checks[i]; len(c.Findings) < listed {
			c.Findings = append(c.Findings, f)
		} else {
			c.More++
		}
	}
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
