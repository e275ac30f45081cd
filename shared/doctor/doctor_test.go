package doctor

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/shared/say"
)

func check(id string, find func(*Snapshot, *Report)) *Check {
	return &Check{ID: id, Doc: "# " + id, Needs: []Part{Services}, Uses: []Part{Quotas}, Find: find}
}

func finding(key string, s Severity) Finding {
	return Finding{Severity: s, About: About{Kind: Service, Namespace: "shop", Name: "web"}, Key: key, Text: say.F("It is so."), Do: say.F("Something.")}
}

// Findings are sorted, the worst first; a check that panics is unknown and doesn't affect the others.
func TestExamine(t *testing.T) {
	t.Parallel()
	s := &Snapshot{Cluster: "c1", Given: []Part{Services, Quotas}, Failed: map[Part]error{}}
	checks := []*Check{
		check("a", func(_ *Snapshot, r *Report) { r.Add(finding("2", Warning)); r.Add(finding("1", Warning)) }),
		check("b", func(*Snapshot, *Report) { panic("no") }),
		check("c", func(_ *Snapshot, r *Report) {
			r.Add(finding("", Critical))
			r.Unknown(About{Kind: Cluster, Name: "c1"}, errors.New("no answer"))
		}),
	}
	r := Examine(t.Context(), s, checks)
	var got []string
	for _, f := range r.Findings {
		got = append(got, f.Severity.String()+" "+f.ID())
	}
	for _, u := range r.Unknown {
		got = append(got, u.Check+" "+u.About.String()+" "+u.Why.String())
	}
	want := []string{
		"critical c|service|shop/web|", "warning a|service|shop/web|1", "warning a|service|shop/web|2",
		"b  the check broke down: no", "c c1 no answer",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	s.Failed[Services] = errors.New("denied")
	if r := Examine(t.Context(), s, checks); len(r.Findings) > 0 || len(r.Unknown) != 3 || r.Unknown[0].Why.String() != "the services could not be read: denied" {
		t.Errorf("without its needs: %+v", r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	late := []*Check{check("a", func(_ *Snapshot, r *Report) { r.Add(finding("1", Warning)); cancel() }), checks[0]}
	delete(s.Failed, Services)
	if r := Examine(ctx, s, late); len(r.Findings) != 1 || len(r.Unknown) != 1 {
		t.Errorf("the check after the end of the time: %+v", r)
	}
	if r := Examine(t.Context(), &Snapshot{}, checks[:1]); len(r.Unknown) != 1 {
		t.Errorf("what nobody asked for is known: %+v", r)
	}
}

func TestOnly(t *testing.T) {
	t.Parallel()
	lb := Finding{About: OfBalancer("lb-1"), Services: []string{"shop/web"}}
	all := Result{Findings: []Finding{finding("1", Info), {About: About{Kind: Service, Namespace: "other", Name: "web"}}, lb, {About: OfBalancer("lb-2")}},
		Unknown: []Unknown{{Check: "a"}, {Check: "a", About: About{Kind: Service, Namespace: "other", Name: "web"}}, {Check: "b", About: All(Service)}}}
	ofShop := func(name string) bool { return strings.HasPrefix(name, "shop/") }
	if r := all.Only(ofShop); len(r.Findings) != 2 || len(r.Unknown) != 2 || len(all.Findings) != 4 {
		t.Errorf("got %+v", r)
	}
	if worst, any := all.AtLeast(Warning).Worst(); any {
		t.Errorf("the worst of none is %s", worst)
	}
}

func TestParts(t *testing.T) {
	t.Parallel()
	for p := range parts {
		if p != Policy && p != Delays && len(reads([]Part{p})) == 0 {
			t.Errorf("%s reads nothing", p)
		}
	}
	var s Severity
	if err := s.UnmarshalText([]byte("worst")); err == nil {
		t.Error("worst is a severity")
	}
	if _, err := Severity(9).MarshalText(); err == nil {
		t.Error("9 is a severity")
	}
}

func TestUntold(t *testing.T) {
	t.Parallel()
	web := About{Kind: Service, Namespace: "shop", Name: "web", UID: "u1"}
	for what, tt := range map[string]struct {
		check string
		about About
		want  bool
	}{
		"the thing itself":         {"a", web, true},
		"without its UID":          {"a", About{Kind: Service, Namespace: "shop", Name: "web"}, true},
		"each of its kind":         {"a", All(Service), true},
		"the whole check":          {"a", About{}, true},
		"another check":            {"b", About{}, false},
		"another Service":          {"a", About{Kind: Service, Namespace: "shop", Name: "api"}, false},
		"the cluster":              {"a", About{Kind: Cluster, Name: "c1"}, false},
		"each of another kind":     {"a", All(Balancer), false},
		"one of that name, a node": {"a", About{Kind: Node, Namespace: "shop", Name: "web"}, false},
	} {
		r := Result{Unknown: []Unknown{{Check: tt.check, About: tt.about, Why: say.F("denied")}}}
		if got := len(r.untold("a", web)) > 0; got != tt.want {
			t.Errorf("%s: got %v", what, got)
		}
	}
}

// Without a cluster, only what needs one is unknown for that reason: a check that breaks down is not.
func TestAlone(t *testing.T) {
	t.Parallel()
	s := Alone(nil, []Part{Services, Quotas})
	r := Examine(t.Context(), s, []*Check{
		check("a", func(*Snapshot, *Report) { panic("no") }),
		check("b", func(s *Snapshot, r *Report) { r.Unknown(All(Service), say.Errorf("limits: %w", s.Err(Quotas))) }),
		{ID: "c", Doc: "# c", Needs: []Part{Quotas}},
	})
	got := map[string]bool{}
	for _, u := range r.Unknown {
		got[u.Check] = u.NoCluster
	}
	if want := map[string]bool{"a": false, "b": true, "c": true}; !cmp.Equal(got, want) {
		t.Errorf("for want of a cluster: %v, want %v", got, want)
	}
}
