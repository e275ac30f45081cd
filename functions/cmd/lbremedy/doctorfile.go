package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/shared/checkup"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/remedy"
)

// examineFiles checks Services before they are applied.
func (p *program) examineFiles(ctx context.Context, e examining, args []string) error {
	checks, least, services, err := e.wanted(args)
	if err != nil {
		return err
	}
	if e.fix != "" || e.apply {
		return command.Wrong("doctor -f only looks: correct the file, and leave out --fix and --apply")
	}
	var list []corev1.Service
	for _, file := range e.files {
		found, err := p.manifests(file)
		if err != nil {
			return err
		}
		list = append(list, found...)
	}
	checks = slices.DeleteFunc(checks, func(c *checkup.Check) bool { return !c.Manifest })
	if len(checks) == 0 {
		return command.Wrong("none of the checks %s makes sense of a manifest: see lbremedy doctor checks", strings.Join(e.checks, ", "))
	}
	wanted := checkup.PartsOf(checks)
	var facts *checkup.Snapshot
	var read []checkup.Reading
	if p.cluster != "" {
		env, err := p.fixing(ctx, e)
		if err != nil {
			return err
		}
		g := p.progress()
		facts, read, err = checkup.Gather(ctx, p.source(env, g), checkup.Facts(wanted))
		g.done()
		if err != nil {
			return err
		}
	}
	r := checkup.Examine(checkup.Manifests(facts, list, wanted), checks)
	r.Read = append(r.Read, read...)
	if facts == nil && len(r.Unknown) > 0 {
		p.note("What depends on the cluster is left open, since none was named: %s.", remedy.Count(len(r.Unknown), "question"))
		r.Unknown = []checkup.Unknown{}
	}
	return p.examined(about(r, e.namespace, services), least, e.explain)
}

// manifests returns the Services in a file of YAML documents or JSON, also those in
// lists. What is no Service is passed over.
func (p *program) manifests(file string) ([]corev1.Service, error) {
	name, data, err := p.readText(file)
	if err != nil {
		return nil, err
	}
	var list []corev1.Service
	for _, doc := range split(data) {
		found, err := doc.services()
		if err != nil {
			return nil, command.Wrong("%s: %w", name, err)
		}
		list = append(list, found...)
	}
	if len(list) == 0 {
		return nil, command.Wrong("%s holds no Service", name)
	}
	return list, nil
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

// split takes a file apart at its lines of three hyphens.
func split(data []byte) []document {
	var docs []document
	at, above := 0, 0
	for _, mark := range append(separator.FindAllIndex(data, -1), []int{len(data), len(data)}) {
		docs = append(docs, document{data[at:mark[0]], above})
		above += bytes.Count(data[at:mark[1]], []byte("\n"))
		at = mark[1]
	}
	return docs
}

// yamlLine is how the YAML library says where it stumbled.
var yamlLine = regexp.MustCompile(`^.*?yaml: (?:unmarshal errors:\s*)?(?:line (\d+): )?`)

// services returns the Services of the document.
func (d document) services() ([]corev1.Service, error) {
	if len(bytes.TrimSpace(d.text)) == 0 {
		return nil, nil
	}
	data, err := yaml.YAMLToJSONStrict(d.text)
	if err != nil {
		return nil, d.wrong(err)
	}
	return d.object(data)
}

// wrong says in which line of the file a document is broken.
func (d document) wrong(err error) error {
	text := err.Error()
	m := yamlLine.FindStringSubmatch(text)
	if m == nil {
		return fmt.Errorf("the document that begins in line %d is no YAML: %s", d.begins(), text)
	}
	rest := strings.TrimSpace(strings.TrimPrefix(text, m[0]))
	n, bad := strconv.Atoi(m[1])
	if bad != nil {
		return fmt.Errorf("the document that begins in line %d is no YAML: %s", d.begins(), rest)
	}
	return fmt.Errorf("near line %d: %s", d.above+n, rest) // it may be that of the line before
}

func (d document) object(data []byte) ([]corev1.Service, error) {
	if string(bytes.TrimSpace(data)) == "null" {
		return nil, nil // comments alone
	}
	var head struct {
		Kind  string
		Items []json.RawMessage
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, fmt.Errorf("the document that begins in line %d is no object of Kubernetes", d.begins())
	}
	switch {
	case strings.HasSuffix(head.Kind, "List"):
		var list []corev1.Service
		for _, item := range head.Items {
			found, err := d.object(item)
			if err != nil {
				return nil, err
			}
			list = append(list, found...)
		}
		return list, nil
	case head.Kind == "":
		return nil, fmt.Errorf("the document that begins in line %d has no kind", d.begins())
	case head.Kind != "Service":
		return nil, nil
	}
	var svc corev1.Service
	if err := json.Unmarshal(data, &svc); err != nil {
		var typ *json.UnmarshalTypeError
		if errors.As(err, &typ) {
			return nil, fmt.Errorf("the Service that begins in line %d: %s is a %s, and should be a %s", d.begins(), typ.Field, typ.Value, typ.Type)
		}
		return nil, fmt.Errorf("the Service that begins in line %d: %w", d.begins(), err)
	}
	if svc.Name == "" {
		return nil, fmt.Errorf("the Service that begins in line %d has no name", d.begins())
	}
	if svc.Namespace == "" {
		svc.Namespace = "default"
	}
	svc.UID, svc.Status = "", corev1.ServiceStatus{} // what kubectl get left in it is of another one
	return []corev1.Service{svc}, nil
}
