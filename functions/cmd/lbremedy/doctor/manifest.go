package doctor

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/regex"
	"github.com/lbremedy/lbremedy/shared/say"
)

// examineFiles checks Services before they are applied.
func examineFiles(ctx context.Context, p *cli.Program, e examining, args []string) error {
	checks, least, services, err := e.wanted(args)
	if err != nil {
		return err
	}
	if e.fix != "" || e.Apply {
		return command.Wrong("doctor -f writes nothing: correct the file, and leave out --fix and --apply")
	}
	list, err := allManifests(p, e.files)
	if err != nil {
		return err
	}
	if err := named(list, e.namespace, services); err != nil {
		return err
	}
	checks = slices.DeleteFunc(checks, func(c *doctor.Check) bool { return !c.Manifest })
	if len(checks) == 0 {
		return command.Wrong("none of the checks %s applies to manifests: see lbremedy doctor checks", strings.Join(e.checks, ", "))
	}
	wanted := doctor.PartsOf(checks)
	var facts *doctor.Snapshot
	var read []doctor.Reading
	if p.Cluster != "" {
		env, err := p.Prepare(ctx, e.policy, e.Apply)
		if err != nil {
			return err
		}
		defer cli.Close(env)
		g := p.Progress()
		facts, read, err = doctor.Gather(ctx, p.Source(env, g), doctor.Facts(wanted))
		g.Done()
		if err != nil {
			return err
		}
	}
	r := doctor.Examine(doctor.Manifests(facts, list, wanted), checks)
	r.Read = append(r.Read, read...)
	r.Services = concerned(list, e.namespace, services)
	if facts == nil && len(r.Unknown) > 0 {
		p.Note("No cluster is named, so %s could not be answered.", say.Count(len(r.Unknown), "question"))
		r.Unknown = []doctor.Unknown{}
	}
	return examined(p, about(r, e.namespace, services), least, e.explain)
}

// named refuses a namespace and Services that no manifest has: what nobody looked at
// is not well.
func named(list []corev1.Service, namespace string, services []string) error {
	for _, name := range services {
		if concerned(list, "", []string{name}) == 0 {
			return command.Wrong("no manifest has the Service %s; Services without a namespace are in default", name)
		}
	}
	if namespace != "" && concerned(list, namespace, nil) == 0 {
		return command.Wrong("no manifest has a Service in the namespace %s; Services without a namespace are in default", namespace)
	}
	return nil
}

// concerned returns how many Services are of a namespace, if one is named, and among
// the named ones, if there are any.
func concerned(list []corev1.Service, namespace string, services []string) int {
	n := 0
	for _, svc := range list {
		if (namespace == "" || svc.Namespace == namespace) && (len(services) == 0 || slices.Contains(services, svc.Namespace+"/"+svc.Name)) {
			n++
		}
	}
	return n
}

// allManifests returns the Services in files.
func allManifests(p *cli.Program, files []string) ([]corev1.Service, error) {
	var list []corev1.Service
	for _, file := range files {
		found, name, err := manifests(p, file)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, command.Wrong("%s holds no Service", name)
		}
		list = append(list, found...)
	}
	return list, nil
}

// manifests returns the Services in a file of YAML documents or JSON, also those in
// lists, and what the file is called. What is no Service is passed over.
func manifests(p *cli.Program, file string) (list []corev1.Service, name string, err error) {
	name, data, err := p.ReadText(file)
	if err != nil {
		return nil, name, err
	}
	for _, doc := range split(data) {
		found, err := doc.services()
		if err != nil {
			return nil, name, command.Wrong("%s: %w", name, err)
		}
		list = append(list, found...)
	}
	return list, name, nil
}

// A document is one of a file, and the number of lines before it.
type document struct {
	text  []byte
	above int
}

// begins returns the first line with something in it.
func (d document) begins() int {
	blank := len(d.text) - len(bytes.TrimLeft(d.text, " \t\r\n"))
	return d.above + bytes.Count(d.text[:blank], []byte("\n")) + 1
}

// boundary is where a document begins, or ends. A comment or the document's own first
// line may stand behind it.
var boundary = regex.New(`(?m)^(?:---|\.\.\.)(?:[ \t\r]|$)`)

// split takes a file apart into its documents: the YAML library reads the first alone.
func split(data []byte) []document {
	var docs []document
	at, above := 0, 0
	for _, mark := range append(boundary().FindAllIndex(data, -1), []int{len(data), len(data)}) {
		docs = append(docs, document{data[at:mark[0]], above})
		above += bytes.Count(data[at:mark[1]], []byte("\n"))
		at = mark[1]
	}
	return docs
}

// yamlLine is how the YAML library says where it stumbled.
var yamlLine = regex.New(`^.*?yaml: (?:unmarshal errors:\s*)?(?:line (\d+): )?`)

// services returns the Services of the document.
func (d document) services() ([]corev1.Service, error) {
	if len(bytes.TrimSpace(d.text)) == 0 {
		return nil, nil
	}
	data, err := yaml.YAMLToJSONStrict(d.text)
	if err != nil {
		return nil, d.wrong(err)
	}
	return d.object(data, "")
}

// wrong says in which line of the file a document is broken.
func (d document) wrong(err error) error {
	text := err.Error()
	m := yamlLine().FindStringSubmatch(text)
	if m == nil {
		return say.Errorf("the document that starts in line %d is not YAML: %s", d.begins(), text)
	}
	rest := strings.TrimSpace(strings.TrimPrefix(text, m[0]))
	n, bad := strconv.Atoi(m[1])
	if bad != nil {
		return say.Errorf("the document that starts in line %d is not YAML: %s", d.begins(), rest)
	}
	return say.Errorf("near line %d: %s", d.above+n, rest) // it may be that of the line before
}

// object returns the Services of an object. The entries of a ServiceList say no kind.
func (d document) object(data []byte, kind string) ([]corev1.Service, error) {
	if string(bytes.TrimSpace(data)) == "null" {
		return nil, nil // comments alone
	}
	var head struct {
		Kind, APIVersion string
		Items            []json.RawMessage
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, say.Errorf("the document that starts in line %d is not a Kubernetes object", d.begins())
	}
	head.Kind = cmp.Or(head.Kind, kind)
	switch {
	case strings.HasSuffix(head.Kind, "List"):
		var list []corev1.Service
		for _, item := range head.Items {
			found, err := d.object(item, strings.TrimSuffix(head.Kind, "List"))
			if err != nil {
				return nil, err
			}
			list = append(list, found...)
		}
		return list, nil
	case head.Kind == "":
		return nil, say.Errorf("the document that starts in line %d has no kind", d.begins())
	case head.Kind != "Service", head.APIVersion != "" && head.APIVersion != "v1":
		return nil, nil // Knative has a kind Service, too
	}
	var svc corev1.Service
	if err := json.Unmarshal(data, &svc); err != nil {
		if typ, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return nil, say.Errorf("the Service that starts in line %d: %s is a %s, and should be a %s", d.begins(), typ.Field, typ.Value, typ.Type)
		}
		return nil, say.Errorf("the Service that starts in line %d: %w", d.begins(), err)
	}
	if svc.Name == "" {
		return nil, say.Errorf("the Service that starts in line %d has no name", d.begins())
	}
	if svc.Namespace == "" {
		svc.Namespace = "default"
	}
	svc.UID, svc.Status = "", corev1.ServiceStatus{} // what kubectl get left in it is of another one
	return []corev1.Service{svc}, nil
}
