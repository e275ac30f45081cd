package ticket

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/approval"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

type view struct {
	open, over []Member // sorted
	revision   uint64   // the highest of all members, including those that the sink isn't notified of
}

func among(list []string, v string) bool { return len(list) == 0 || slices.Contains(list, v) }

func reaches(s policy.Sink, class string, m Member) bool {
	return among(s.Classes, class) && remedy.Among(s.Namespaces, m.Service.Namespace)
}

// wants reports whether the sink is notified of a member with this result, status and risk.
func wants(s policy.Sink, m Member, result event.Result, status event.Status, risk string) bool {
	if policy.Forge(s.Kind) && len(s.Paths(m.Source)) == 0 {
		return false
	}
	wanted := s.Wants()
	return (slices.Contains(wanted, string(result)) || slices.Contains(wanted, string(status))) && among(s.Risks, cmp.Or(risk, "low"))
}

// view returns what the sink sees of an incident, or of its members with matching keys. Members that are over count only if they ended
// after the ticket was last closed, and after since, when the sink was added. Members that an open ticket was about, or that
// have changed since, end it even if the sink no longer wants them; those whose plans were only ever shown do so only if nothing else ends it.
func (o *outlet) view(ctx context.Context, i incident, members string, h Head, since time.Time) (view, error) {
	var v view
	var unwanted, planned []Member
	err := o.each(ctx, members, func(_ incident, m Member) {
		v.revision = max(v.revision, m.revision)
		now, stood := wants(o.Sink, m, m.Result, m.Status(), m.Risk), m.Stood != "" && wants(o.Sink, m, m.Stood, m.StoodAs, m.StoodRisk)
		switch {
		case !reaches(o.Sink, i.class, m):
		case !m.Over && now:
			v.open = append(v.open, m)
		case m.Over && (m.revision <= h.ClosedAt || h.Status == None && m.At.Before(since)):
		case m.Over && (stood || m.Result.Worked() && now):
			v.over = append(v.over, m)
		case h.Status == Open && (stood || m.revision > h.Revision && m.Stood != event.Planned):
			unwanted = append(unwanted, m)
		case h.Status == Open && m.revision > h.Revision:
			planned = append(planned, m)
		}
	})
	if len(v.open) == 0 {
		v.over = append(v.over, unwanted...)
	}
	if len(v.open)+len(v.over) == 0 { // then the ticket was about one of them
		v.over = planned
	}
	v.sort()
	return v, err
}

func (v view) sort() {
	for _, list := range [][]Member{v.open, v.over} {
		slices.SortFunc(list, func(a, b Member) int {
			return cmp.Or(cmp.Compare(a.Service.String(), b.Service.String()), cmp.Compare(a.uid, b.uid))
		})
	}
}

func (v view) status(was Status) Status {
	switch {
	case len(v.open) > 0:
		return Open
	case len(v.over) > 0, was == Open:
		return Closed
	}
	return None
}

// print is a fingerprint of which Services fail and how, but not when they were seen again.
func (v view) print() string {
	var h strings.Builder
	for i, list := range [][]Member{v.open, v.over} {
		for _, m := range list {
			fmt.Fprintf(&h, "%d %q %q %q %q %q %q\n", i, m.uid, m.Result, m.Digest, m.Finding.String(), m.Ask.String(), m.Error)
			if m.Attempt > 1 {
				fmt.Fprintf(&h, "%d\n", m.Attempt)
			}
			if m.Source != nil {
				fmt.Fprintf(&h, "%q\n", m.Source.Digest)
			}
		}
	}
	return hash(h.String())
}

const listed = 20

func (v view) facts(key string, i incident, title string, h Head, status Status) Facts {
	f := Facts{
		Key: key, Incident: i.String(), Status: status, Reopened: h.Status == Closed && status == Open, Class: i.class, Title: title,
		Failing: len(v.open), Over: len(v.over), Clusters: []string{}, Services: []Member{}, Outcomes: map[event.Result]int{},
	}
	all := slices.Concat(v.open, v.over)
	for n, m := range all {
		switch kind := cmp.Or(m.Service.Kind, "Service"); f.Kind {
		case "", kind:
			f.Kind = kind
		default:
			f.Kind = "thing"
		}
		if n < listed {
			f.Services = append(f.Services, m)
		}
		if f.Since.IsZero() || m.Since.Before(f.Since) {
			f.Since = m.Since
		}
		if n >= f.Failing {
			f.Outcomes[m.Result]++
		}
		if worse(m.Impact, f.Impact) {
			f.Impact = m.Impact
		}
	}
	f.More = len(all) - len(f.Services)
	if len(all) > 0 {
		f.Lead = lead(all)
		// A question that people saw stays until it is answered.
		asked, _ := approval.ParseQuestion(h.Shown.Question)
		if n := slices.IndexFunc(all, func(m Member) bool { return m.uid == asked.UID && questionOf(m, i.class) != "" }); n >= 0 {
			f.Lead = all[n]
		}
		f.Cause, f.Clusters = f.Lead.Cause, []string{f.Lead.Cluster}
		if !f.ByDoctor() && kube.ValidName(f.Lead.Service.Namespace) && kube.ValidName(f.Lead.Service.Name) { // they become part of a command
			f.LogQuery = remedy.LogQuery(f.Lead.Service.String())
		}
	}
	return f
}

// lead returns the member that the texts are about: preferably one that fails, then one that asks, then one with a plan.
func lead(all []Member) Member {
	rank := func(m Member) int {
		n := 0
		if !m.Over {
			n += 4
		}
		if len(m.Ask) > 0 || m.Result == event.Asked {
			n += 2
		}
		if len(m.Steps) > 0 {
			n++
		}
		return n
	}
	return slices.MaxFunc(all, func(a, b Member) int { return cmp.Compare(rank(a), rank(b)) })
}

func worse(a, b event.Impact) bool {
	return slices.Index(event.Impacts, a) > slices.Index(event.Impacts, b)
}

func (f Facts) in(l *say.Language) Facts {
	f.Title, f.Lead = l.Format(f.Title), f.Lead.In(l)
	f.Services = slices.Clone(f.Services)
	for i, m := range f.Services {
		f.Services[i] = m.In(l)
	}
	return f
}
