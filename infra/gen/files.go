package main

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/journal"
	checks "github.com/lbremedy/lbremedy/functions/doctor"
	"github.com/lbremedy/lbremedy/infra/gen/folders"
	"github.com/lbremedy/lbremedy/infra/nats"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/event/schema"
	"github.com/lbremedy/lbremedy/shared/grant"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/hand/route"
	"github.com/lbremedy/lbremedy/shared/policy"
	"github.com/lbremedy/lbremedy/shared/policy/policyfile"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/say/chinese"
)

// check returns what a class folder can't check alone, or nil. names are the class folders.
func check(all []*remedy.Remedy, names []string) error {
	var errs []error
	owner := map[string]string{} // class by text or code, compared as the classifier does
	folder := map[string]string{}
	for _, r := range all {
		if err := folders.ValidClass(r.Class); err != nil {
			errs = append(errs, err)
			continue
		}
		if err := r.Validate(); err != nil {
			errs = append(errs, err)
		}
		taken := []string{upClass, engineClass, notifierClass, doctorClass, chatClass, probeClass, testClass, "exporter"}
		if slices.Contains(taken, r.Class) || strings.HasPrefix(r.Class, doctor.ClassPrefix) {
			errs = append(errs, fmt.Errorf("class %s: the names that follow from this ID belong to a program: choose another ID", r.Class))
		}
		name := folders.Name(r.Class)
		if other, ok := folder[name]; ok {
			errs = append(errs, fmt.Errorf("the classes %s and %s share the folder functions/%s: choose another ID", other, r.Class, name))
		} else if !slices.Contains(names, name) {
			errs = append(errs, fmt.Errorf("class %s belongs in functions/%s, which is not a class folder: rename the folder or the class", r.Class, name))
		}
		folder[name] = r.Class
		for what, texts := range map[string][]string{"text": r.Texts, "code": r.Codes} {
			for _, text := range texts {
				key := what + " " + fmt.Sprint(r.Answers("")) + " " + strings.ToLower(strings.Join(strings.Fields(text), " "))
				switch other, ok := owner[key]; {
				case strings.TrimSpace(text) == "":
					errs = append(errs, fmt.Errorf("class %s looks for an empty %s: leave it out", r.Class, what))
				case ok && other == r.Class:
					errs = append(errs, fmt.Errorf("class %s looks twice for the %s %q: once is enough", r.Class, what, text))
				case ok:
					errs = append(errs, fmt.Errorf("the classes %s and %s look for the same %s, %q: only one can win", other, r.Class, what, text))
				}
				owner[key] = r.Class
			}
		}
	}
	return errors.Join(errs...)
}

func files(dir string, all []*remedy.Remedy) (map[string][]byte, error) {
	all = slices.SortedFunc(slices.Values(all), func(a, b *remedy.Remedy) int { return cmp.Compare(a.Class, b.Class) })
	schemas, err := schema.Files(dir)
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{"infra/nats/accounts.conf": append([]byte(generated), nats.Accounts(nats.ThisCluster)...)}
	for name, text := range schemas {
		out["shared/event/schema/"+name] = text
	}
	for name, of := range map[string]func() ([]byte, error){
		doctorPage:                         func() ([]byte, error) { return combinations(dir) },
		"shared/event/table/table.go":      func() ([]byte, error) { return rendered("table.go", all) },
		"functions/README.md":              func() ([]byte, error) { return catalogue(dir, all) },
		"infra/cluster/rbac.yaml":          func() ([]byte, error) { return roles(holders(all)) },
		"infra/cluster/rbac-parts.yaml":    func() ([]byte, error) { return partRoles(all) },
		"infra/cluster/admission.yaml":     func() ([]byte, error) { return admission(append(slices.Clone(all), together(all))) },
		"infra/cluster/event-writers.yaml": eventWriters,
		"infra/cluster/approvals.yaml":     approvals,
		"infra/cluster/guard.yaml":         guardPolicy,
		"infra/fc/identities.yaml":         func() ([]byte, error) { return identities(all) },
		runtimes[0].File:                   func() ([]byte, error) { return deployment(all, runtimes[0]) },
		runtimes[1].File:                   func() ([]byte, error) { return deployment(all, runtimes[1]) },
		wordingFile:                        func() ([]byte, error) { return wording(dir, all) },
		// Helm reads only files in its own folder.
		"infra/cluster/alerts.yaml": func() ([]byte, error) { return copied(dir, "infra/observability/alerts.yaml") },
	} {
		if out[name], err = of(); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(guardPages(out), ramPolicies(all, out), declared(dir, sample, out)); err != nil {
		return nil, err
	}
	var classes []string
	for _, r := range all {
		classes = append(classes, r.Class)
	}
	names, err := yaml.Marshal(classes)
	if err != nil {
		return nil, fmt.Errorf("write the list of classes: %w", err)
	}
	out["infra/cluster/classes.yaml"] = append([]byte(generated), names...)
	// A typo in a policy file must not loosen a rule: unknown fields are refused.
	text, err := schema.Of(dir, "policy.v1.json", "The policy file of lbremedy", policyfile.File{}, false, policy.Sink{}, remedy.Policy{})
	if err != nil {
		return nil, err
	}
	if text, err = schema.Limited(text, policyLimits(all)); err != nil {
		return nil, err
	}
	out[policyfile.SchemaFile] = text
	// A typo in a routes file must not send a call elsewhere.
	if out[route.SchemaFile], err = schema.Of(dir, "routes.v1.json", "The routes file of lbremedy up", route.File{}, false); err != nil {
		return nil, err
	}
	if out[valuesFile], err = chartValues(dir, out[policyfile.SchemaFile], out[route.SchemaFile]); err != nil {
		return nil, err
	}
	for _, of := range []struct {
		name, title string
		value       any
	}{
		{"declaration.v1.json", "What a class declares", remedy.Declaration{}},
		{"look.v1.json", "A look: the data of a call of type io.lbremedy.look.v1", hand.LookRequest{}},
		{"look-answer.v1.json", "What a hand has found out", hand.LookAnswer{}},
		{"apply.v1.json", "An order: the data of a call of type io.lbremedy.apply.v1", hand.Order{}},
		{"apply-answer.v1.json", "What became of an order", hand.ApplyAnswer{}},
		{"answer.v1.json", "The answer to a call", hand.Answer{}},
	} {
		// A hand must ignore unknown fields. The engine accepts no others than these.
		text, err := schema.Of(dir, of.name, of.title, of.value, true, ccm.Flow{}, event.Failure{}, remedy.Plan{}, hand.Error{})
		if err != nil {
			return nil, err
		}
		out["shared/hand/schema/"+of.name] = text
	}
	if out[doctor.SchemaFile], err = schema.Of(dir, "doctor.v1.json", "What lbremedy doctor found", doctor.Result{}, true); err != nil {
		return nil, err
	}
	if text, err = schema.Of(dir, "case.v1.json", "A case as lbremedy prints it", event.Record{}, true); err != nil {
		return nil, err
	}
	if out[journal.SchemaFile], err = schema.Add(dir, text, true, printed()); err != nil {
		return nil, err
	}
	return out, nil
}

func printed() []schema.Property {
	return []schema.Property{
		{Name: "result", Doc: "how the case stands", Value: new(event.Status)},
		{Name: "firstSeen", Doc: "when the failure happened that opened the case", Value: new(time.Time)},
		{Name: "lastSeen", Doc: "when the failure was last seen", Value: new(time.Time)},
		{Name: "seen", Doc: "how often runs in a row have ended so; absent: once", Value: new(journal.Repeats)},
		{Name: "nextStep", Doc: "what a person does next", Value: new(string)},
		{Name: "waitMs", Doc: "milliseconds until the case is looked at again", Value: new(float64)},
		{Name: "timingsMs", Doc: "how long each phase of the run took, and the controller to sync the write, in milliseconds", Value: new(journal.Timings)},
		{Name: "eventTime", Doc: "when the failure happened that the last run answered", Value: new(time.Time)},
		{Name: "first", Doc: "when the first run of this case began", Value: new(time.Time)},
		{Name: "wait"}, {Name: "timings"},
	}
}

func readers(all []*remedy.Remedy) []*remedy.Remedy { return slices.Concat(all, checks.Remedies()) }

//go:embed catalogue.md.tmpl identity.yaml.tmpl s.yaml.tmpl table.go.tmpl
var embedded embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"cell": cell, "folder": folders.Name, "writes": writes, "risk": risk, "ram": ramActions, "rbac": rbac, "kinds": kinds, "text": yamlText,
	"total":      total,
	"doctorRAM":  func() string { return orDash(grant.Actions(checks.Grants())) },
	"doctorRBAC": func() string { return verbs(checks.Grants()) },
	"symptoms":   checks.Symptoms,
	"chinese":    func(t say.Text) string { return t.In(chinese.Language()) },
	"warnings":   func() []event.Warning { return event.Warnings },
	"object":     func(w event.Warning) string { return cmp.Or(w.Kind, "Service") },
	"writers":    func(w event.Warning) string { return cmp.Or(strings.Join(w.Components, ", "), "–") },
}).ParseFS(embedded, "*.tmpl"))

func rendered(name string, data any) ([]byte, error) {
	return folders.Render(templates.Lookup(name+".tmpl"), data)
}

func catalogue(dir string, all []*remedy.Remedy) ([]byte, error) {
	text, err := rendered("catalogue.md", all)
	if err != nil {
		return nil, err
	}
	texts, err := knownTexts(dir)
	return append(text, texts...), err
}

func copied(dir, name string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return nil, fmt.Errorf("read what is copied: %w", err)
	}
	return append([]byte(generated), text...), nil
}

// doctorPage has a table of the check combinations' rules between two marks.
const doctorPage = "functions/doctor/README.md"

func combinations(dir string) ([]byte, error) {
	const begins, ends = "<!-- combinations: written by make gen -->\n", "<!-- end of combinations -->\n"
	page, err := os.ReadFile(filepath.Join(dir, doctorPage))
	if err != nil {
		return nil, fmt.Errorf("read the page of the doctor: %w", err)
	}
	before, rest, ok := strings.Cut(string(page), begins)
	_, after, closed := strings.Cut(rest, ends)
	if !ok || !closed {
		return nil, fmt.Errorf("%s lacks the marks of its table", doctorPage)
	}
	var b strings.Builder
	b.WriteString(before + begins + "| together | what becomes of it |\n|---|---|\n")
	for _, row := range checks.Combinations() {
		fmt.Fprintf(&b, "| %s | %s |\n", cell(row[0].String()), cell(row[1].String()))
	}
	return []byte(b.String() + ends + after), nil
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

func kinds(all []*remedy.Remedy) []string {
	has := map[string]bool{}
	for _, r := range readers(all) {
		for _, s := range r.Steps {
			has[s.Kind()] = true
			if back, ok := s.Undo(); ok {
				has[back.Kind()] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(has))
}

func writes(r *remedy.Remedy) string {
	var kinds []string
	for _, s := range r.Steps {
		kinds = append(kinds, s.Kind())
	}
	slices.Sort(kinds)
	return orDash(kinds)
}

func risk(r *remedy.Remedy) string {
	text := cmp.Or(r.RiskRange(), "–")
	if r.OptIn {
		text += "; applied only where the policy names the class"
	}
	return text
}

func ramActions(r *remedy.Remedy) string { return orDash(grant.Actions(r.Grants())) }

func rbac(r *remedy.Remedy) string { return verbs(r.Grants()) }

func total(all []*remedy.Remedy) string {
	verbs, actions := 0, 0
	for _, r := range all {
		for _, g := range r.Grants() {
			if g.RAM() {
				actions++
			} else {
				verbs++
			}
		}
	}
	return fmt.Sprintf("%d verbs and %d actions for the %d classes together", verbs, actions, len(all))
}

func verbs(grants []grant.Grant) string {
	verbs := map[string][]string{}
	var resources []string
	for _, g := range grants {
		if g.RAM() {
			continue
		}
		name := strings.TrimPrefix(g.String(), g.Verb+" ")
		if verbs[name] == nil {
			resources = append(resources, name)
		}
		verbs[name] = append(verbs[name], g.Verb)
	}
	slices.Sort(resources)
	for i, name := range resources {
		resources[i] = name + ": " + strings.Join(verbs[name], ", ")
	}
	if len(resources) == 0 {
		return "–"
	}
	return strings.Join(resources, "; ")
}

func orDash(words []string) string {
	if len(words) == 0 {
		return "–"
	}
	return "`" + strings.Join(words, "`, `") + "`"
}
