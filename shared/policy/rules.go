package policy

import (
	"errors"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/remedy"
)

func noClass(field, id string, classes []string) error {
	return fmt.Errorf("%s: there is no class %q; there are %s", field, id, strings.Join(classes, ", "))
}

// rules reads the rules. Two of them about the same with different answers
// contradict each other: nobody meant both.
func rules(list []Rule, classes []string, errs *[]error) []remedy.Rule {
	var out []remedy.Rule
	for i, r := range list {
		at := fmt.Sprintf("rules[%d]", i)
		for _, of := range []struct {
			field    string
			patterns []string
		}{{"clusters", r.Clusters}, {"namespaces", r.Namespaces}} {
			for _, p := range of.patterns {
				if _, err := path.Match(p, ""); err != nil || p == "" {
					*errs = append(*errs, fmt.Errorf("%s.%s: %q is no pattern", at, of.field, p))
				}
			}
		}
		for _, id := range r.Classes {
			if !slices.Contains(classes, id) {
				*errs = append(*errs, noClass(at+".classes", id, classes))
			}
		}
		for k := range r.Labels {
			if k == "" {
				*errs = append(*errs, fmt.Errorf("%s.labels: a label has no name", at))
			}
		}
		switch {
		case r.Mode == "" && r.Risk == "":
			*errs = append(*errs, fmt.Errorf("%s: it changes nothing: it has neither mode nor risk", at))
		case r.Mode == string(remedy.Observe) && r.Risk != "":
			*errs = append(*errs, fmt.Errorf("%s: it observes, so that its risk says nothing: leave it out, or fix", at))
		}
		for j, o := range list[:i] {
			same := o
			same.Mode, same.Risk = r.Mode, r.Risk
			if reflect.DeepEqual(same, r) {
				*errs = append(*errs, fmt.Errorf("%s: it is about the same as rules[%d]: make them one", at, j))
			}
		}
		out = append(out, remedy.Rule{
			Clusters: r.Clusters, Namespaces: r.Namespaces, Labels: r.Labels, Classes: r.Classes,
			Mode: mode(at+".mode", r.Mode, errs), Risk: risk(at+".risk", r.Risk, errs),
		})
	}
	return out
}

var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// freezes reads the freezes. The zone's offsets are read here: where a function
// runs there may be no data of time zones.
func freezes(list []Freeze, errs *[]error) []remedy.Freeze {
	var out []remedy.Freeze
	for i, f := range list {
		at := fmt.Sprintf("freezes[%d]", i)
		if f.Name == "" {
			*errs = append(*errs, fmt.Errorf("%s: it has no name", at))
		}
		read := weekly
		if strings.Contains(f.From, "T") || strings.Contains(f.Until, "T") {
			read = once
		}
		freeze, err := read(f)
		if err != nil {
			*errs = append(*errs, fmt.Errorf("%s: %w", at, err))
			continue
		}
		freeze.Name = f.Name
		out = append(out, freeze)
	}
	return out
}

func once(f Freeze) (remedy.Freeze, error) {
	if len(f.Days) > 0 || f.Zone != "" {
		return remedy.Freeze{}, errors.New("from and until are dates: days and zone are for times of day")
	}
	var out remedy.Freeze
	for _, t := range []struct {
		field, text string
		into        *time.Time
	}{{"from", f.From, &out.Start}, {"until", f.Until, &out.End}} {
		at, err := time.Parse(time.RFC3339, t.text)
		if err != nil {
			return out, fmt.Errorf("%s: %q is no time such as 2006-01-02T15:04:05+08:00", t.field, t.text)
		}
		*t.into = at.UTC()
	}
	if !out.Start.Before(out.End) {
		return out, fmt.Errorf("it ends at %s, which is not after its beginning", f.Until)
	}
	return out, nil
}

func weekly(f Freeze) (remedy.Freeze, error) {
	var out remedy.Freeze
	for _, t := range []struct {
		field, text string
		into        *time.Duration
	}{{"from", f.From, &out.From}, {"until", f.Until, &out.Until}} {
		at, err := time.Parse("15:04", t.text)
		if t.text == "24:00" && t.field == "until" {
			*t.into = 24 * time.Hour
			continue
		}
		if err != nil {
			return out, fmt.Errorf("%s: %q is no time of day such as 18:30, and no time such as 2006-01-02T15:04:05+08:00", t.field, t.text)
		}
		*t.into = time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute
	}
	if out.From == out.Until {
		return out, fmt.Errorf("it begins and ends at %s: a whole day is from 00:00 until 24:00", f.From)
	}
	days := f.Days
	if len(days) == 0 {
		days = weekdays
	}
	for _, d := range days {
		n := slices.Index(weekdays, d)
		if n < 0 {
			return out, fmt.Errorf("days: %q is no day; there are %s", d, strings.Join(weekdays, ", "))
		}
		if slices.Contains(out.Days, time.Weekday(n)) {
			return out, fmt.Errorf("days: %s is there twice", d)
		}
		out.Days = append(out.Days, time.Weekday(n))
	}
	zone, err := time.LoadLocation(f.Zone)
	if err != nil {
		return out, fmt.Errorf("zone: %q is not known: want a name such as Asia/Shanghai", f.Zone)
	}
	out.Zone = remedy.Offsets(zone, time.Now())
	return out, nil
}

// budgets reads the budgets. None can be switched off: a large one says that it was meant.
func budgets(b Budgets, errs *[]error) remedy.Budgets {
	for _, n := range []struct {
		field string
		value int
	}{{"attempts", b.Attempts}, {"class", b.Class}, {"least", b.Least}} {
		if n.value < 0 {
			*errs = append(*errs, fmt.Errorf("budgets.%s: %d is negative", n.field, n.value))
		}
	}
	out := remedy.Budgets{Attempts: b.Attempts, Class: b.Class, Least: b.Least}
	if b.Share != "" {
		n, err := strconv.Atoi(strings.TrimSuffix(b.Share, "%"))
		if err != nil || !strings.HasSuffix(b.Share, "%") || n < 1 || n > 100 {
			*errs = append(*errs, fmt.Errorf("budgets.share: %q is no share from 1%% to 100%%", b.Share))
		}
		out.Share = n
	}
	return out
}
