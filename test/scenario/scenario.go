// Package scenario runs a class against the scenarios in its testdata, and checks the laws, which hold for every class. A
// scenario is a txtar file: a sentence, followed by sections (see script). It runs on a real API server as the class's
// ServiceAccount with its generated ClusterRole and admission policy, on a real JetStream, and on the simulated cloud with the
// generated RAM policy. After a write, the simulated controller syncs the Service; it plays the release that the scenario's cluster
// names. With -short, as for the race detector, scenarios are not repeated without each right. Begin with [Run] and laws.
package scenario

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/engine"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/event/table"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/advice"
	"github.com/lbremedy/lbremedy/test/diff"
	"github.com/lbremedy/lbremedy/test/identity"
)

var update = flag.Bool("update", false, "rewrite the want sections of the scenarios")

// Run runs all scenarios in testdata for the class.
func Run(t *testing.T, r *remedy.Remedy) {
	t.Helper()
	RunIn(t, r, "testdata")
}

// RunIn runs all scenarios in a folder for the class.
func RunIn(t *testing.T, r *remedy.Remedy, dir string) {
	t.Helper()
	if err := r.Validate(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("class %s has no scenario in %s: %v", r.Class, dir, err)
	}
	on := newGround(t, r.Class)
	if err := identity.Admit(t.Context(), on.cluster); err != nil {
		t.Fatal(err)
	}
	used := &usage{}
	for _, file := range files {
		name := script{file: file}.name()
		t.Run(name, func(t *testing.T) {
			s := read(t, file)
			for _, law := range laws {
				if err := law.check(t, on, r, s, used); err != nil {
					t.Errorf("law %q: %v", law.name, err)
				}
			}
		})
	}
	if t.Failed() {
		return
	}
	if !testing.Short() {
		for _, err := range needed(t, on, r, used) {
			t.Error(err)
		}
	}
	var shown []string
	for _, risk := range r.PlanRisks() {
		shown = append(shown, risk.String())
	}
	if diff := diff.Of(slices.Sorted(slices.Values(shown)), slices.Sorted(maps.Keys(used.risks))); diff != "" {
		t.Errorf("the catalogue shows other risks than plans of the scenarios have: declare Risks, or write the scenario (-shown +scenarios):\n%s", diff)
	}
}

// A script is a scenario as in its file. The file begins with a sentence that says what it shows, followed by sections:
//
//	-- message --   the text of the failure event
//	-- event --     reason, type, component, ago, waited, and about a node or the cluster; optional
//	-- service --   the Service, as YAML, with status
//	-- cluster --   other Kubernetes objects, as YAML documents; optional
//	-- cloud --     the simulated account, as YAML
//	-- policy --    the operator's policy file; optional, default fix up to low risk
//	-- claims --    places that others hold, a key and a number on each line; optional
//	-- fault --     OpenAPI actions that fail with an internal error; optional
//	-- want --      what a person would want to see; -update writes it
//
// In all sections ${uid}, ${name}, ${namespace}, ${cluster} are the Service's UID, the default name of its load balancer, its
// namespace and the cluster's ID, and ${10m ago} is that time; in the section service ${huge} is a meaningless text of 200 KiB.
// An Event in the section cluster about a Service gets the Service's UID.
type script struct {
	file    string
	archive *txtar.Archive
	parts   map[string]string
	without []grant.Grant // of the class's rights
	runs    string        // release of the controller; empty: the scenario's
}

func (s script) name() string { return strings.TrimSuffix(filepath.Base(s.file), ".txtar") }

// rights returns the class's generated rights in the scenario, without those that a test's change of the class no longer declares.
func (s script) rights(r *remedy.Remedy) (identity.Rights, error) {
	rights, err := identity.Of(r.Class)
	for _, g := range rights.Grants() {
		if slices.Contains(s.without, g) || !slices.Contains(r.Grants(), g) {
			rights = rights.Without(g)
		}
	}
	return rights, err
}

func read(t *testing.T, file string) script {
	t.Helper()
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := script{file: file, archive: a, parts: map[string]string{}}
	if line := strings.TrimSpace(string(a.Comment)); line == "" || !strings.HasSuffix(line, ".") {
		t.Fatalf("%s does not begin with a sentence", file)
	}
	known := []string{"message", "event", "service", "cluster", "cloud", "policy", "claims", "fault", "want"}
	for _, f := range a.Files {
		if !slices.Contains(known, f.Name) {
			t.Fatalf("%s: section %q is not known; known are %v", file, f.Name, known)
		}
		s.parts[f.Name] = string(f.Data)
	}
	for _, need := range []string{"message", "service", "cloud"} {
		if strings.TrimSpace(s.parts[need]) == "" {
			t.Fatalf("%s has no section %q", file, need)
		}
	}
	return s
}

type heading struct {
	Reason    string `json:"reason"`
	Type      string `json:"type"`
	Component string `json:"component"`
	Ago       string `json:"ago"`    // time since the failure, a duration
	Waited    string `json:"waited"` // how long the case has waited with nothing to write, a duration
	About     string `json:"about"`  // "node NAME" or "cluster"; empty: the Service
}

func (s script) event() (heading, error) {
	e := heading{Reason: "SyncLoadBalancerFailed", Type: "Warning", Component: "service-controller", Ago: "10s", Waited: "0s"}
	err := yaml.UnmarshalStrict([]byte(s.parts["event"]), &e)
	return e, err
}

type law struct {
	name  string
	check func(*testing.T, *ground, *remedy.Remedy, script, *usage) error
}

// laws check that:
//
//   - the message belongs to the class, and to no other;
//   - the class makes only calls that it declares, and needs each of its rights: without one, a scenario ends differently, and says
//     which right is missing;
//   - a look writes nothing, and neither does a run in observe mode;
//   - if any read before the plan fails, nothing is written and the error is returned;
//   - only what the plan named changes;
//   - before a plan of medium or high risk is applied, the journal stores the state of the load balancers, and if any read of that
//     fails, nothing is written;
//   - under a controller newer than every known release, a plan is the same and its risk one step higher;
//   - undo restores the previous state, and refuses once a load balancer exists that rules that out;
//   - after a fix, the same event writes nothing;
//   - for a Service that was fixed, the doctor finds nothing critical;
//   - its plans have the risks in the catalogue, and each of these occurs in a scenario;
//   - texts for people are messages: formats with arguments, which can be translated;
//   - no step or command sets an annotation that the controller reads only for the other kind of load balancer;
//   - the record contains no key, token or signature of a URL in the message.
//
// In worlds where the controller has synced the Service, no message leads to a write or to a question that suggests one: see
// TestForged.
var laws = []law{
	{"its messages belong to the class", classified},
	{"a look writes nothing, says messages, and a failed read is an error and no write", looks},
	{"nothing changes but what the plan names, and undo puts it back", changes},
	{"under a controller that is newer than every known release its risk is one step higher", riskier},
	{"without a snapshot nothing of medium or high risk is written", keeps},
	{"it ends as wanted, and the same event then writes nothing", ends},
}

var classifier = sync.OnceValue(func() *event.Classifier { return event.NewClassifier(table.Table()) })

func classified(_ *testing.T, _ *ground, r *remedy.Remedy, s script, _ *usage) error {
	e, err := s.event()
	if err != nil {
		return err
	}
	m := classifier().Classify(event.Input{
		Reason: e.Reason, Type: e.Type, Component: e.Component, Message: strings.TrimSpace(s.parts["message"]),
	})
	if m.Class != r.Class {
		return fmt.Errorf("the message is of class %s (%s), not of %s", m.Class, m.Why, r.Class)
	}
	return nil
}

func looks(t *testing.T, on *ground, r *remedy.Remedy, s script, used *usage) error {
	w := build(t, on, r, s)
	before := w.snapshot(t)
	rec, err := engine.Look(t.Context(), w.env, r, w.event)
	if s.parts["fault"] != "" {
		if err == nil {
			return fmt.Errorf("a read failed and no error came back; the look ended as %s", rec.Result)
		}
	} else if err != nil {
		return err
	}
	if diff := diff.Of(before, w.snapshot(t)); diff != "" {
		return fmt.Errorf("a look wrote (-before +after):\n%s", diff)
	}
	if err := untranslated(rec, heard(s)); err != nil {
		return err
	}
	if err := leaked(rec, s.parts["message"]); err != nil {
		return err
	}
	if err := w.unheeded(r, rec); err != nil {
		return err
	}
	reads := w.reads()
	w.record(used, looking)
	if s.parts["fault"] != "" {
		return nil
	}
	// The world does not change, so cache the API server's answers while one read after the other fails.
	w.calls.keep()
	for _, call := range reads {
		if call == "list approvals.lbremedy.io" { // the engine's own call, which its tests refuse
			continue
		}
		heal := w.refuse(call)
		rec, err := engine.Look(t.Context(), w.env, r, w.event)
		heal()
		if err == nil && !cautious(rec) {
			return fmt.Errorf("with %q failing no error came back; the look ended as %s: %s", call, rec.Result, rec.Finding)
		}
	}
	w.calls.forget()
	if diff := diff.Of(before, w.snapshot(t)); diff != "" {
		return fmt.Errorf("a look with a failing read wrote (-before +after):\n%s", diff)
	}
	w.observe(t)
	if _, err := engine.Run(t.Context(), w.env, r, w.event); err != nil {
		return fmt.Errorf("observe mode: %w", err)
	}
	if diff := diff.Of(before, w.snapshot(t)); diff != "" {
		return fmt.Errorf("observe mode wrote (-before +after):\n%s", diff)
	}
	return nil
}

var secret = regexp.MustCompile(`(?:AccessKeyId|SecurityToken|Signature)=([^&"\s]{4,})`)

func leaked(rec event.Record, message string) error {
	data, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	for _, m := range secret.FindAllStringSubmatch(message, -1) {
		if bytes.Contains(data, []byte(m[1])) {
			return fmt.Errorf("the secret %q of the message stands in the record %s", m[1], data)
		}
	}
	return nil
}

// unheeded returns an error for an annotation in steps or questions that the controller reads only for the other kind of load balancer.
func (w *world) unheeded(r *remedy.Remedy, rec event.Record) error {
	steps, err := r.Planned(w.env.Decode, rec)
	if err != nil {
		return err
	}
	unread, err := advice.Unread(w.svc, steps, rec.Finding.String(), rec.Ask.String(), rec.Note.String())
	if err == nil && len(unread) > 0 {
		err = fmt.Errorf("the controller does not read for such a Service what is to be set: %v", unread)
	}
	return err
}

// untranslated returns an error for text for people that is not a message. Texts of others, such as the failure, may be quoted.
func untranslated(rec event.Record, others string) error {
	type said struct {
		name string
		text say.Text
	}
	all := []said{{"finding", rec.Finding}, {"rule", rec.Rule}, {"question", rec.Ask}, {"note", rec.Note}}
	for _, s := range rec.Steps {
		all = append(all, said{"step", s.Text})
	}
	for _, of := range all {
		for _, m := range of.text {
			if m.Format == "%s" && slices.ContainsFunc(m.Args, func(arg any) bool { _, literal := arg.(string); return literal }) {
				return fmt.Errorf("in the %s no message says %q", of.name, m.Args)
			}
		}
		if phrase := english(of.text, others); phrase != "" {
			return fmt.Errorf("in the %s an argument says %q: make it a message of its own", of.name, phrase)
		}
	}
	return nil
}

func heard(s script) string {
	var all []string
	for _, f := range s.archive.Files {
		if f.Name != "want" {
			all = append(all, string(f.Data))
		}
	}
	return strings.Join(all, "\n")
}

// prose matches three words in a row, which IDs, addresses, commands and settings do not have.
var prose = regexp.MustCompile(`(?:^| )[a-z']{2,} [a-z']+ [a-z']{2,}[.,;:]?(?: |$)`)

// english returns an argument of the text that is English and would not be translated: it has three words in a row, and is not a
// command, a quotation or a text of others.
func english(t say.Text, heard string) string {
	for _, m := range t {
		for _, arg := range m.Args {
			switch arg := arg.(type) {
			case say.Text:
				if phrase := english(arg, heard); phrase != "" {
					return phrase
				}
			case string:
				quoted := strings.HasPrefix(arg, `"`) || strings.Contains(heard, arg)
				if prose.MatchString(arg) && !quoted && !commands.MatchString(arg) {
					return arg
				}
			}
		}
	}
	return ""
}

var commands = regexp.MustCompile(`^(?:kubectl|aliyun|lbremedy|curl) `)

func cautious(rec event.Record) bool {
	unknown := slices.ContainsFunc(rec.Changes, func(c event.Change) bool { return c.Unknown })
	return unknown && rec.Risk == remedy.High.String() || rec.Impact == event.Unchecked
}

// undecided is the minimum of waits for other people's decisions, which scenarios skip; failures that pass are checked sooner.
const undecided = 10 * time.Minute

func changes(t *testing.T, on *ground, r *remedy.Remedy, s script, used *usage) error {
	w := build(t, on, r, s)
	before := w.snapshot(t)
	w.env.Watch = time.Millisecond // the Service is not synced: nothing will change
	rec, err := w.run(t, func(rec event.Record) bool { return !rec.Done() && rec.Wait < undecided })
	if err != nil && s.parts["fault"] == "" {
		return err
	}
	w.record(used, writing)
	after := w.snapshot(t)
	if diff := diff.Of(before.allow(rec.Steps), after.allow(rec.Steps)); diff != "" {
		return fmt.Errorf("something changed that the plan does not name (-before +after):\n%s", diff)
	}
	if !rec.Done() {
		if diff := diff.Of(before, after); diff != "" {
			return fmt.Errorf("it ended as %s and wrote (-before +after):\n%s", rec.Result, diff)
		}
		return nil
	}
	undoable := false
	for _, s := range rec.Steps {
		if s.Undo == nil && !s.ResyncOnly {
			return nil // the plan says that it cannot be undone
		}
		undoable = undoable || s.Undo != nil
	}
	if !undoable {
		return nil
	}
	env, _ := w.undoEnv(t)
	if _, err := engine.Undo(t.Context(), env, r, []event.Record{rec}); err != nil {
		return fmt.Errorf("undo: %w", err)
	}
	back := w.snapshot(t).settled()
	back.likeListeners(before)
	if diff := diff.Of(before.settled(), back); diff != "" {
		return fmt.Errorf("undo left something behind (-before +after):\n%s", diff)
	}
	return nil
}

const unheardOf = "v9.0.0"

// riskier checks that under an unknown release of the controller, a plan is that of the newest known one with a risk one step higher.
func riskier(t *testing.T, on *ground, r *remedy.Remedy, s script, _ *usage) error {
	if len(r.Steps) == 0 || s.parts["fault"] != "" || !strings.Contains(s.parts["want"], "\ndo:   ") {
		return nil
	}
	look := func(runs string) (rec event.Record, steps []string, err error) {
		s.runs = runs
		w := build(t, on, r, s)
		rec, err = engine.Look(t.Context(), w.env, r, w.event)
		for _, s := range rec.Steps {
			steps = append(steps, w.unfill(s.Text.String()))
		}
		return rec, steps, err
	}
	known, steps, err := look(ccm.Newest().String())
	if err != nil || len(known.Steps) == 0 {
		return err
	}
	newer, others, err := look(unheardOf)
	if err != nil {
		return err
	}
	if diff := diff.Of(steps, others); diff != "" {
		return fmt.Errorf("under %s the plan is another one (-known +newer):\n%s", unheardOf, diff)
	}
	var risk, raised remedy.Risk
	if err := errors.Join(risk.ReadText(known.Risk), raised.ReadText(newer.Risk)); err != nil {
		return err
	}
	if raised != min(risk+1, remedy.High) || !strings.Contains(newer.Note.String(), unheardOf) {
		return fmt.Errorf("under %s the risk is %s, and it is %s under %s; the note says %q", unheardOf, raised, risk, ccm.Newest(), newer.Note)
	}
	return nil
}

// keeps checks that a risky plan has a snapshot, and is not applied without it. Only a scenario's own policy can allow such a plan.
func keeps(t *testing.T, on *ground, r *remedy.Remedy, s script, used *usage) error {
	if !strings.Contains(s.parts["policy"], "risk") || s.parts["fault"] != "" {
		return nil
	}
	w := build(t, on, r, s)
	w.env.Watch = time.Millisecond // the Service is not synced: nothing will change
	rec, err := engine.Run(t.Context(), w.env, r, w.event)
	if err != nil {
		return err
	}
	if rec.Attempt == 0 || rec.Risk == remedy.Low.String() || rec.Service.Kind != "" {
		return nil
	}
	m, err := w.env.Stream.Last(t.Context(), stream.Cases, event.KeptSubject(rec.Cluster, rec.Service.UID, r.Class))
	if err != nil {
		return fmt.Errorf("read the snapshot: %w", err)
	}
	if kept, err := hand.ReadSnapshot(m.Data); err != nil || kept.Case != rec.Case {
		return fmt.Errorf("the snapshot is of case %s, and this is %s: %w", kept.Case, rec.Case, err)
	}
	w.record(used, writing)
	made := w.reads()
	for _, g := range r.Snapshots() {
		if !slices.Contains(made, g.String()) {
			continue
		}
		w := build(t, on, r, s)
		before := w.snapshot(t)
		defer w.refuse(g.String())()
		if rec, err := engine.Run(t.Context(), w.env, r, w.event); err == nil && !cautious(rec) {
			return fmt.Errorf("with %q failing no error came back; the run ended as %s: %s", g, rec.Result, rec.Finding)
		}
		if diff := diff.Of(before, w.snapshot(t)); diff != "" {
			return fmt.Errorf("with %q failing it wrote (-before +after):\n%s", g, diff)
		}
	}
	return nil
}

func ends(t *testing.T, on *ground, r *remedy.Remedy, s script, used *usage) error {
	w := build(t, on, r, s)
	w.controllerAfterWrite(t)
	routed := false // after a plan about routes, the controller syncs the routes
	rec, err := w.run(t, func(rec event.Record) bool {
		if !routed && w.event.Failure.Service.Kind != "" && rec.Done() {
			w.routes(t)
			routed = true
			return true
		}
		return len(rec.Steps) > 0 && rec.Reason != event.ByCause || routed && rec.Wait <= time.Second
	})
	w.record(used, watching)
	if err != nil && s.parts["fault"] == "" {
		return err
	}
	if rec.Risk != "" {
		used.risk(rec.Risk)
	}
	if rec.Result == event.Fixed && rec.Service.Kind == "" {
		if err := errors.Join(w.sound(t), w.barred(t, r, rec)); err != nil {
			return err
		}
	}
	got := w.report(rec, err)
	if *update {
		return s.write(got)
	}
	if diff := diff.Of(strings.TrimSpace(s.parts["want"]), got); diff != "" {
		return fmt.Errorf("(-want +got; run with -update to accept):\n%s", diff)
	}
	if !rec.Result.Worked() {
		return nil
	}
	before := w.snapshot(t)
	for _, again := range []bool{false, true} {
		ev := w.event
		ev.Again = again
		rec, err := engine.Run(t.Context(), w.env, r, ev)
		if err != nil {
			return fmt.Errorf("the same event again: %w", err)
		}
		if again && rec.Result != event.Gone {
			return fmt.Errorf("asked again after the fix, it ended as %s: %s", rec.Result, rec.Finding)
		}
	}
	if diff := diff.Of(before, w.snapshot(t)); diff != "" {
		return fmt.Errorf("the same event after the fix wrote (-before +after):\n%s", diff)
	}
	return nil
}

func (s script) write(got string) error {
	data := []byte(got + "\n")
	i := slices.IndexFunc(s.archive.Files, func(f txtar.File) bool { return f.Name == "want" })
	if i < 0 {
		s.archive.Files = append(s.archive.Files, txtar.File{Name: "want"})
		i = len(s.archive.Files) - 1
	}
	if bytes.Equal(s.archive.Files[i].Data, data) {
		return nil
	}
	s.archive.Files[i].Data = data
	return os.WriteFile(s.file, txtar.Format(s.archive), 0o644)
}

func (w *world) report(rec event.Record, err error) string {
	var b strings.Builder
	line := func(key, text string) {
		if text != "" {
			fmt.Fprintf(&b, "%s%s\n", key, text)
		}
	}
	line("", rec.Finding.String())
	for _, s := range rec.Steps {
		line("do:   ", s.Text.String())
	}
	line("ask:  ", rec.Ask.String())
	line("note: ", rec.Note.String())
	line("cause: ", rec.Cause)
	if rec.Wait > 0 && len(rec.Steps) == 0 && err == nil {
		line("wait: ", rec.Wait.String())
	}
	if err != nil {
		line("error: ", rec.Error)
	}
	end := string(rec.Result)
	if rec.Risk != "" {
		end += ", " + rec.Risk + " risk"
	}
	line("end:  ", end)
	return strings.TrimSpace(w.unfill(b.String()))
}
