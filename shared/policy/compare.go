package policy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

// An Effect says whether a change lets lbremedy write more or less than before.
type Effect string

// The effects. What can do both counts as loosened: a person is to look at it.
const (
	Loosened  Effect = "loosened"
	Tightened Effect = "tightened"
	Changed   Effect = "changed" // neither more nor less is written
)

// A Change is one thing in which a policy differs from the one before.
type Change struct {
	Effect Effect `json:"effect"`
	Field  string `json:"field"`         // as in the policy file, such as classes.quota.risk
	Was    string `json:"was,omitempty"` // empty: it was not there
	Is     string `json:"is,omitempty"`  // empty: it is not there any more
	Text   string `json:"text"`          // what that means, as a sentence
	Said   Told   `json:"-"`             // the same for readers of other languages
}

// Told is what a change says, as messages.
type Told struct{ Was, Is, Text say.Text }

// What is what Compare knows about the classes: the sections that they declare, and whether
// a class is applied only if the policy names it.
type What struct {
	Sections []remedy.Section
	OptIn    func(class string) bool
}

// Compare returns in what a version differs from the one before, what it loosens first.
func Compare(was, is Version, of What) []Change {
	c := &comparison{What: of, was: was.Policy, is: is.Policy}
	c.field("mode", modeOf(c.was.Mode), modeOf(c.is.Mode), modeChange)
	c.field("risk", c.was.Risk.String(), c.is.Risk.String(), func(was, is string) (Effect, say.Text) {
		return grows(int(c.was.Risk), int(c.is.Risk)), say.F("Plans up to %s risk are applied without an approval; before, up to %s risk.", is, was)
	})
	c.classes()
	c.rules()
	c.approvals()
	c.freezes()
	c.budgets()
	c.takeBack()
	c.doctor()
	c.sections()
	c.sinks(was.Sinks, is.Sinks)
	order := []Effect{Loosened, Tightened, Changed}
	slices.SortStableFunc(c.list, func(a, b Change) int { return slices.Index(order, a.Effect) - slices.Index(order, b.Effect) })
	return c.list
}

// A comparison is a list of changes in the making.
type comparison struct {
	What
	was, is remedy.Policy
	list    []Change
}

func (c *comparison) add(effect Effect, field, was, is string, said say.Text) {
	c.say(effect, field, Told{say.Literal(was), say.Literal(is), said})
}

func (c *comparison) say(effect Effect, field string, t Told) {
	c.list = append(c.list, Change{effect, field, t.Was.String(), t.Is.String(), t.Text.String(), t})
}

// A meaning is what a change of a field comes to.
type meaning func(was, is string) (Effect, say.Text)

// field adds the change of a field, if there is one.
func (c *comparison) field(name, was, is string, means meaning) {
	if was != is {
		effect, text := means(was, is)
		c.add(effect, name, was, is, text)
	}
}

// grows returns the effect of a number that allows more the larger it is.
func grows(was, is int) Effect {
	switch {
	case is > was:
		return Loosened
	case is < was:
		return Tightened
	}
	return Changed
}

// could returns the effect of values that may follow others, of which it is not known which
// held at which place.
func could(was, is []int) Effect {
	switch {
	case slices.Max(is) > slices.Min(was):
		return Loosened
	case slices.Min(is) < slices.Max(was):
		return Tightened
	}
	return Changed
}

// worse returns the effect of two changes together.
func worse(a, b Effect) Effect {
	for _, e := range []Effect{Loosened, Tightened} {
		if a == e || b == e {
			return e
		}
	}
	return Changed
}

func modeOf(m remedy.Mode) string { return string(cmp.Or(m, remedy.Observe)) }

// rank is how much a mode allows.
func rank(m remedy.Mode) int {
	if m == remedy.Fix {
		return 1
	}
	return 0
}

func modeChange(_, is string) (Effect, say.Text) {
	if is == string(remedy.Fix) {
		return Loosened, say.F("Plans are applied; before, they were only shown.")
	}
	return Tightened, say.F("Plans are only shown; before, they were applied.")
}

// approvals adds the risks of which another approval is needed.
func (c *comparison) approvals() {
	for _, risk := range []remedy.Risk{remedy.Low, remedy.Medium, remedy.High} {
		was, is := c.was.Consent(risk), c.is.Consent(risk)
		if reflect.DeepEqual(was, is) {
			continue
		}
		effect := Tightened
		if is.Loosens(was) {
			effect = Loosened
		}
		c.say(effect, "approvals ("+risk.String()+" risk)", Told{was.Text(), is.Text(),
			say.F("A plan of %s risk that is not applied automatically needs the %s; before, the %s.", risk, is.Text(), was.Text())})
	}
}

// keys returns the keys of two maps, sorted, each once.
func keys[V any](a, b map[string]V) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Keys(a)), slices.Collect(maps.Keys(b))))))
}

func riskText(r *remedy.Risk) string {
	if r == nil {
		return ""
	}
	return r.String()
}

// classes compares what is said of single classes. What a class leaves out is the policy's.
func (c *comparison) classes() {
	for _, id := range keys(c.was.Classes, c.is.Classes) {
		at := "classes." + id
		was, named := c.was.Classes[id]
		is, stays := c.is.Classes[id]
		mode := func(p remedy.Policy, k remedy.Class) remedy.Mode { return cmp.Or(k.Mode, p.Mode, remedy.Observe) }
		risk := func(p remedy.Policy, k remedy.Class) remedy.Risk {
			if k.Risk != nil {
				return *k.Risk
			}
			return p.Risk
		}
		if named != stays {
			word := func(there bool) string {
				if there {
					return "named"
				}
				return ""
			}
			effect, text := Changed, say.F("The class %s has an entry of its own.", id)
			if !stays {
				text = say.F("The class %s has no entry of its own any more.", id)
			}
			switch optIn := c.OptIn != nil && c.OptIn(id); {
			case optIn && stays:
				effect, text = Loosened, say.F("The policy names the class %s, which is applied only if it is named.", id)
			case optIn:
				effect, text = Tightened, say.F("The policy does not name the class %s any more, which is applied only if it is named.", id)
			}
			c.add(effect, at, word(named), word(stays), text)
		}
		if was.Mode != is.Mode {
			now := mode(c.is, is)
			c.add(grows(rank(mode(c.was, was)), rank(now)), at+".mode", string(was.Mode), string(is.Mode),
				say.F("The mode of the class %s is %s.", id, now))
		}
		if riskText(was.Risk) != riskText(is.Risk) {
			now := risk(c.is, is)
			c.add(grows(int(risk(c.was, was)), int(now)), at+".risk", riskText(was.Risk), riskText(is.Risk),
				say.F("Plans of the class %s are applied up to %s risk.", id, now))
		}
		if was.OneWay != is.OneWay {
			effect, text := Tightened, say.F("Steps of the class %s that cannot be undone need an approval again.", id)
			if is.OneWay {
				effect, text = Loosened, say.F("Steps of the class %s that cannot be undone are applied without an approval.", id)
			}
			c.add(effect, at+".oneWay", fmt.Sprint(was.OneWay), fmt.Sprint(is.OneWay), text)
		}
	}
}

// about returns what a rule is about, which no two rules of a policy have in common.
func about(r remedy.Rule) string { return r.String() }

// says returns what a rule says.
func says(r remedy.Rule) say.Text {
	var parts []say.Text
	if r.Mode != "" {
		parts = append(parts, say.Literal(string(r.Mode)))
	}
	if r.Risk != nil {
		parts = append(parts, say.F("plans up to %s risk", r.Risk))
	}
	return say.Items(parts, len(parts))
}

// without returns the modes and the risks that a policy may come to at some place, but for one rule.
func without(p remedy.Policy, rule string) (modes, risks []int) {
	modes, risks = []int{rank(p.Mode)}, []int{int(p.Risk)}
	take := func(m remedy.Mode, r *remedy.Risk) {
		if m != "" {
			modes = append(modes, rank(m))
		}
		if r != nil {
			risks = append(risks, int(*r))
		}
	}
	for _, k := range p.Classes {
		take(k.Mode, k.Risk)
	}
	for _, r := range p.Rules {
		if about(r) != rule {
			take(r.Mode, r.Risk)
		}
	}
	return modes, risks
}

// ruleEffect returns the effect of a rule that follows another one, either of which may be nil.
func (c *comparison) ruleEffect(was, is *remedy.Rule, rule string) Effect {
	values := func(p remedy.Policy, r *remedy.Rule) (modes, risks []int, mode, risk bool) {
		modes, risks = without(p, rule)
		if r != nil && r.Mode != "" {
			modes, mode = []int{rank(r.Mode)}, true
		}
		if r != nil && r.Risk != nil {
			risks, risk = []int{int(*r.Risk)}, true
		}
		return modes, risks, mode, risk
	}
	wasModes, wasRisks, a, b := values(c.was, was)
	isModes, isRisks, d, e := values(c.is, is)
	effect := Changed
	if a || d {
		effect = worse(effect, could(wasModes, isModes))
	}
	if (b || e) && slices.Max(isModes) > 0 { // where nothing is applied, no risk counts
		effect = worse(effect, could(wasRisks, isRisks))
	}
	if is != nil && was == nil && len(is.Labels) > 0 {
		return Tightened // all that one about labels of Services can do
	}
	if is != nil && was == nil && is.Mode != remedy.Observe && c.OptIn != nil && slices.ContainsFunc(is.Classes, c.OptIn) {
		effect = Loosened // it names a class that is applied only if it is named
	}
	return effect
}

// rules compares the rules, each with the one about the same.
func (c *comparison) rules() {
	find := func(list []remedy.Rule, rule string) int {
		return slices.IndexFunc(list, func(r remedy.Rule) bool { return about(r) == rule })
	}
	var before, after []string // those in both, in their orders
	for i, r := range c.was.Rules {
		if find(c.is.Rules, about(r)) < 0 {
			c.say(c.ruleEffect(&c.was.Rules[i], nil, about(r)), fmt.Sprintf("rules[%d]", i), Told{Was: says(r),
				Text: say.F("The rule about %s is removed. It said: %s.", about(r), says(r))})
			continue
		}
		before = append(before, about(r))
	}
	for i, r := range c.is.Rules {
		at := fmt.Sprintf("rules[%d]", i)
		j := find(c.was.Rules, about(r))
		if j < 0 {
			c.say(c.ruleEffect(nil, &c.is.Rules[i], about(r)), at, Told{Is: says(r), Text: say.F("A rule about %s is added: %s.", about(r), says(r))})
			continue
		}
		after = append(after, about(r))
		if was := c.was.Rules[j]; says(was).String() != says(r).String() {
			c.say(c.ruleEffect(&was, &c.is.Rules[i], about(r)), at, Told{says(was), says(r),
				say.F("The rule about %s says: %s. Before, it said: %s.", about(r), says(r), says(was))})
		}
	}
	if !slices.Equal(before, after) {
		c.add(Loosened, "rules", strings.Join(before, " | "), strings.Join(after, " | "),
			say.F("The rules are in another order. Of those that match, a later one counts more, so that more may be allowed at some places."))
	}
}

// freezeText returns when a freeze is.
func freezeText(f remedy.Freeze) say.Text {
	if !f.Start.IsZero() || !f.End.IsZero() {
		return say.F("%s until %s", f.Start.Format(time.RFC3339), f.End.Format(time.RFC3339))
	}
	var days []string
	for _, d := range f.Days {
		days = append(days, strings.ToLower(d.String()[:3]))
	}
	clock := func(d time.Duration) string { return fmt.Sprintf("%02d:%02d", int(d.Hours()), int(d.Minutes())%60) }
	on := say.Literal(strings.Join(days, ","))
	if len(days) == 7 {
		on = say.F("every day")
	}
	until := clock(f.Until)
	if len(f.Zone) > 0 {
		until += time.Time{}.In(time.FixedZone("", f.Zone[0].Seconds)).Format(" -07:00")
	}
	return on.And("%s until %s", clock(f.From), until)
}

// freezes compares the freezes by their names.
func (c *comparison) freezes() {
	byName := func(list []remedy.Freeze) map[string]remedy.Freeze {
		all := map[string]remedy.Freeze{}
		for _, f := range list {
			name := f.Name
			for n := 2; ; n++ {
				if _, taken := all[name]; !taken {
					break
				}
				name = fmt.Sprintf("%s (%d)", f.Name, n)
			}
			all[name] = f
		}
		return all
	}
	before, after := byName(c.was.Freezes), byName(c.is.Freezes)
	for _, name := range keys(before, after) {
		was, there := before[name]
		is, stays := after[name]
		switch at := "freezes " + name; {
		case !there:
			c.say(Tightened, at, Told{Is: freezeText(is), Text: say.F("A freeze is added: nothing is written %s.", freezeText(is))})
		case !stays:
			c.say(Loosened, at, Told{Was: freezeText(was), Text: say.F("A freeze is removed: lbremedy may write %s.", freezeText(was))})
		case !reflect.DeepEqual(was, is):
			c.say(Loosened, at, Told{freezeText(was), freezeText(is),
				say.F("The freeze %s is at another time, so that lbremedy may write when it could not before.", name)})
		}
	}
}

func (c *comparison) budgets() {
	was, is := c.was.Budgets.Full(), c.is.Budgets.Full()
	for _, b := range []struct {
		field   string
		was, is int
		said    say.Text
	}{
		{"attempts", was.Attempts, is.Attempts, say.F("On one Service and class there are up to %d attempts in 24 hours; before, %d.", is.Attempts, was.Attempts)},
		{"class", was.Class, is.Class, say.F("For one class up to %d Services are written to in 10 minutes; before, %d.", is.Class, was.Class)},
		{"share", int(was.Share), int(is.Share),
			say.F("Up to %d%% of a cluster's Services are written to in an hour; before, %d%%.", int(is.Share), int(was.Share))},
		{"least", was.Least, is.Least, say.F("Up to %d Services may be written to in an hour, however few there are; before, %d.", is.Least, was.Least)},
	} {
		if b.was == b.is {
			continue
		}
		unit := ""
		if b.field == "share" {
			unit = "%"
		}
		c.add(grows(b.was, b.is), "budgets."+b.field, fmt.Sprint(b.was)+unit, fmt.Sprint(b.is)+unit, b.said)
	}
}

func (c *comparison) takeBack() {
	word := func(undo bool) string {
		if undo {
			return "undo"
		}
		return "leave"
	}
	c.field("unsettled", word(c.was.TakeBack), word(c.is.TakeBack), func(_, is string) (Effect, say.Text) {
		if is == "undo" {
			return Loosened, say.F("A fix that did not work is undone once its attempts are used up, without an approval.")
		}
		return Tightened, say.F("A fix that did not work stays as it is once its attempts are used up.")
	})
}

// doctor compares what the doctor checks against: none of it allows a write.
func (c *comparison) doctor() {
	other := func(text say.Text) meaning { return func(string, string) (Effect, say.Text) { return Changed, text } }
	was, is := c.was.Doctor, c.is.Doctor
	c.field("doctor.protect", strings.Join(was.Protect, ", "), strings.Join(is.Protect, ", "),
		other(say.F("The doctor checks deletion protection in other namespaces.")))
	version := func(d remedy.Doctor) string {
		if reflect.ValueOf(d.Target).IsZero() {
			return ""
		}
		return d.Target.String()
	}
	c.field("doctor.target", version(was), version(is), other(say.F("The doctor compares with another release of the controller.")))
	c.field("doctor.localPorts", was.Local().String(), is.Local().String(), other(say.F("The doctor expects other local ports on the nodes.")))
}

// sections compares what classes declare. There true allows more than false, a longer list
// more than a shorter one, and a number is a margin, of which less allows more.
func (c *comparison) sections() {
	for _, s := range c.Sections {
		was, err := sectionFields(s, c.was)
		is, err2 := sectionFields(s, c.is)
		if err != nil || err2 != nil {
			c.add(Loosened, s.Name(), string(c.was.Sections[s.Name()]), string(c.is.Sections[s.Name()]), say.F("The section %s could not be compared.", s.Name()))
			continue
		}
		for _, name := range keys(was, is) {
			before, after := was[name], is[name]
			if bytes.Equal(before, after) {
				continue
			}
			text := func(v json.RawMessage) string { return sectionText(s, name, v) }
			at := strings.TrimSuffix(s.Name()+"."+name, ".")
			c.add(sectionEffect(before, after), at, text(before), text(after), say.F("The setting %s changes: %s.", at, s.About()))
		}
	}
	for _, name := range keys(c.was.Sections, c.is.Sections) {
		known := slices.ContainsFunc(c.Sections, func(s remedy.Section) bool { return s.Name() == name })
		if was, is := c.was.Sections[name], c.is.Sections[name]; !known && !bytes.Equal(was, is) {
			c.add(Loosened, name, string(was), string(is), say.F("The setting %s changes, which this program does not know.", name))
		}
	}
}

// sectionFields returns the fields of a section under a policy, with the defaults of those
// that it leaves out; a section that is no struct has one without a name.
func sectionFields(s remedy.Section, p remedy.Policy) (map[string]json.RawMessage, error) {
	value := s.New()
	if err := s.Fill(p, value); err != nil {
		return nil, err
	}
	v := reflect.ValueOf(value).Elem()
	if v.Kind() != reflect.Struct {
		text, err := json.Marshal(value)
		return map[string]json.RawMessage{"": text}, err
	}
	all := map[string]json.RawMessage{}
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		field := v.Field(i)
		if field.Kind() == reflect.Slice && field.Len() == 0 {
			field.SetZero()
		}
		text, err := json.Marshal(field.Interface())
		if err != nil {
			return nil, err
		}
		all[name] = text
	}
	return all, nil
}

// sectionText returns a field of a section as the file writes it.
func sectionText(s remedy.Section, field string, text json.RawMessage) string {
	if value := s.New(); field == "" && json.Unmarshal(text, value) == nil {
		return fmt.Sprint(reflect.ValueOf(value).Elem().Interface())
	}
	if string(text) == "null" {
		return "[]"
	}
	return string(text)
}

// sectionEffect returns the effect of a value that follows another.
func sectionEffect(was, is json.RawMessage) Effect {
	var a, b any
	if json.Unmarshal(was, &a) != nil || json.Unmarshal(is, &b) != nil {
		return Loosened
	}
	switch b := b.(type) {
	case bool:
		if !b {
			return Tightened
		}
	case float64:
		if before, ok := a.(float64); ok && b > before {
			return Tightened
		}
	case []any, nil:
		now, _ := b.([]any)
		before, _ := a.([]any)
		if !slices.ContainsFunc(now, func(v any) bool { return !slices.Contains(before, v) }) {
			return Tightened
		}
	}
	return Loosened
}

// sinks compares who is notified. No sink allows a write.
func (c *comparison) sinks(was, is []Sink) {
	byName := func(list []Sink) map[string]Sink {
		all := map[string]Sink{}
		for _, s := range list {
			all[s.Name] = s
		}
		return all
	}
	before, after := byName(was), byName(is)
	for _, name := range keys(before, after) {
		a, there := before[name]
		b, stays := after[name]
		switch at := "tell " + name; {
		case !there:
			c.add(Changed, at, "", b.Kind, say.F("The sink %s is notified, too.", name))
		case !stays:
			c.add(Changed, at, a.Kind, "", say.F("The sink %s is not notified any more.", name))
		default:
			c.sink(at, a, b)
		}
	}
}

// sink compares the fields of one sink.
func (c *comparison) sink(at string, was, is Sink) {
	a, b := reflect.ValueOf(was), reflect.ValueOf(is)
	for i := range a.NumField() {
		name, _, _ := strings.Cut(a.Type().Field(i).Tag.Get("json"), ",")
		text := func(v reflect.Value) string {
			out, err := json.Marshal(v.Interface())
			if err != nil || v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0 {
				return ""
			}
			return strings.Trim(string(out), `"`)
		}
		if before, after := text(a.Field(i)), text(b.Field(i)); before != after {
			c.add(Changed, at+"."+name, before, after, say.F("The sink %s has another %s.", is.Name, name))
		}
	}
}
