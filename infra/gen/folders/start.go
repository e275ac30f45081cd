package folders

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"text/template"
)

// Start returns the first handwritten files of a class. An existing folder is an error; "ab-c" and "a-bc" share one. It writes nothing.
func Start(root fs.FS, id string) (map[string][]byte, error) {
	if err := ValidClass(id); err != nil {
		return nil, err
	}
	name := Name(id)
	dir := path.Join(functions, name)
	if _, err := fs.Stat(root, dir); err == nil {
		return nil, fmt.Errorf("class %s: the folder %s exists already", id, dir)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("look for class folder %s: %w", dir, err)
	}
	files := map[string][]byte{}
	for file, t := range map[string]*template.Template{
		name + ".go":              classTemplate,
		"doc.md":                  docTemplate,
		"doc.zh.md":               docChineseTemplate,
		"say.zh.json":             sentencesTemplate,
		"testdata/a_person.txtar": scenarioTemplate,
		"testdata/corpus.jsonl":   corpusTemplate,
		"testdata/fixtures.yaml":  fixturesTemplate,
	} {
		var b strings.Builder
		if err := t.Execute(&b, class{ID: id, Name: name, Words: strings.ReplaceAll(id, "-", " ")}); err != nil {
			return nil, fmt.Errorf("render %s: %w", file, err)
		}
		files[path.Join(dir, file)] = []byte(b.String())
	}
	return files, nil
}

type class struct {
	ID    string
	Name  string // of its folder and package
	Words string // the ID with spaces: the first text to match, until a better one is known
}

var classTemplate = parse("the package of a class", `// Package {{.Name}} remedies Services whose sync fails with {{.Words}}.
package {{.Name}}

import (
	_ "embed"

	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
)

//go:embed doc.md
var doc string

// Remedy asks: nothing that lbremedy may write is known to end this failure.
var Remedy = &remedy.Remedy{
	Class: "{{.ID}}",
	Doc:   doc,
	Texts: []string{"{{.Words}}"},
	Diagnose: remedy.Always(remedy.Plan{
		Finding: say.F("The sync failed with {{.Words}}."),
		Ask:     say.F("Find the cause in the controller's log and end it."),
	}),
}
`)

var docTemplate = parse("the page of a class", `# {{title .Words}}

The controller reports "{{.Words}}".

Nothing that lbremedy may write is known to end this failure: it asks a person.
`)

var docChineseTemplate = parse("the Chinese page of a class", `# {{title .Words}}

控制器报告 “{{.Words}}”。

lbremedy 可以写入的内容都不能结束此失败：它会询问人工。
`)

var sentencesTemplate = parse("the Chinese sentences of a class", `{
 "{{title .Words}}": "{{title .Words}}",
 "The sync failed with {{.Words}}.": "同步失败：{{.Words}}。",
 "Find the cause in the controller's log and end it.": "请在控制器的日志中找出原因并消除。"
}
`)

var scenarioTemplate = parse("the scenario of a class", `The failure is reported: a person is asked.
-- message --
Error syncing load balancer []: apply model error: {{.Words}}
-- service --
metadata: {namespace: shop, name: web}
-- cloud --
{}
-- want --
The sync failed with {{.Words}}.
ask:  Find the cause in the controller's log and end it.
end:  asked
`)

// The classifier's tests need ten messages.
var corpusTemplate = parse("the corpus of a class", `{"want": "{{.ID}}", "reason": "SyncLoadBalancerFailed", "type": "Warning", `+
	`"component": "service-controller", "message": "Error syncing load balancer []: apply model error: {{.Words}}"}
`)

var fixturesTemplate = parse("the fixtures of a class", `class: {{.ID}}
fixtures:
- name: {{.ID}}
  story: It is created, and the cloud refuses its load balancer with {{.Words}}.
  says: {{.Words}}
  ends: asked
  testbed: {own: {{.Words}}}
  inject:
  - refuse: {action: CreateLoadBalancer, code: Refused, message: {{.Words}}}
  - create: {}
  repair:
  - accept: {}
`)
