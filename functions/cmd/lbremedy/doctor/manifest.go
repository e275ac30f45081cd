package doctor

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/config"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/regex"
	"github.com/lbremedy/lbremedy/shared/say"
)

func examineFiles(ctx context.Context, p *cli.Program, e *examining, args []string) error {
	if err := e.wanted(args); err != nil {
		return err
	}
	if e.fix != "" || e.Apply {
		return command.Wrong("doctor -f writes nothing: correct the file, and leave out --fix and --apply")
	}
	list, misplaced, err := allManifests(p, e.files)
	if err != nil {
		return err
	}
	all := make([]corev1.Service, len(list))
	for i := range list {
		all[i] = list[i].Service
	}
	if err := e.named(all); err != nil {
		return err
	}
	checks := slices.DeleteFunc(e.run, func(c *doctor.Check) bool { return !c.Manifest })
	if len(checks) == 0 {
		return command.Wrong("none of the checks %s applies to manifests: see lbremedy doctor checks", strings.Join(e.checks, ", "))
	}
	wanted := doctor.ManifestParts(checks)
	s, read := doctor.Alone(all, wanted), []doctor.Reading(nil)
	switch {
	case p.Cluster == "" && e.policy != "":
		v, err := p.ReadPolicy(ctx, e.policy)
		if err != nil {
			return err
		}
		s.Policy = v.Policy
		delete(s.Failed, doctor.Policy)
	case p.Cluster != "":
		env, err := p.Prepare(ctx, e.policy, e.Apply)
		if err != nil {
			return err
		}
		defer cli.Close(env)
		g := p.Progress()
		from := p.Source(env, g)
		from.Manifests = all
		s, read, err = doctor.Gather(ctx, from, wanted)
		g.Done()
		if err != nil {
			return err
		}
	}
	r := ofManifests(doctor.Examine(ctx, s, checks), list)
	r.Read = append(r.Read, read...)
	if slices.ContainsFunc(checks, func(c *doctor.Check) bool { return c.ID == "kind" }) {
		r.Findings = append(r.Findings, misplaced...)
		slices.SortStableFunc(r.Findings, func(a, b doctor.Finding) int { return cmp.Compare(b.Severity, a.Severity) })
	}
	if r, err = e.narrow(r, all); err != nil {
		return err
	}
	var open []string
	r.Unknown = slices.DeleteFunc(r.Unknown, func(u doctor.Unknown) bool {
		if u.NoCluster {
			open = append(open, u.Check)
		}
		return u.NoCluster
	})
	if len(open) > 0 {
		slices.Sort(open)
		p.Note("No cluster is named, so these checks left something open: %s. --cluster compares with a cluster.", strings.Join(slices.Compact(open), ", "))
	}
	return e.examined(p, r)
}

// ofManifests drops findings about other Services of the cluster, and adds positions to those about manifests.
func ofManifests(r doctor.Result, list []manifest) doctor.Result {
	find := map[doctor.About]*manifest{}
	for i := range list {
		if about := doctor.OfService(&list[i].Service); find[about] == nil {
			find[about] = &list[i]
		}
	}
	other := func(a doctor.About) bool { return a.Kind == doctor.Service && a.Name != "" && find[a] == nil }
	r.Findings = slices.DeleteFunc(r.Findings, func(f doctor.Finding) bool { return other(f.About) })
	r.Unknown = slices.DeleteFunc(r.Unknown, func(u doctor.Unknown) bool { return other(u.About) })
	for i := range r.Findings {
		if m := find[r.Findings[i].About]; m != nil {
			r.Findings[i].File, r.Findings[i].Line = m.file, m.line(r.Findings[i])
		}
	}
	return r
}

type manifest struct {
	corev1.Service
	kind string // of another object, reduced to its name and annotations for Services; empty for a Service
	file string
	at   func(path ...string) int // the line of a field
}

// fields are the locations of findings whose key is not an annotation.
var fields = map[string][]string{
	"local-ports": {"spec", "ports"}, "loadBalancerClass": {"spec", "loadBalancerClass"}, "annotations": {"metadata", "annotations"},
	"loadBalancerSourceRanges": {"spec", "loadBalancerSourceRanges"}, "clients": {"spec", "loadBalancerSourceRanges"},
	"ipv6": {"spec", "loadBalancerSourceRanges"}, "loadBalancerIP": {"spec", "loadBalancerIP"}, "spec.type": {"spec", "type"}, "ports": {"spec", "ports"},
}

// line returns the line of the finding's annotation, of the one that names the reused load balancer, or of a field; otherwise the name's.
func (m *manifest) line(f doctor.Finding) int {
	key := strings.TrimPrefix(strings.TrimPrefix(f.Key, "both/"), "unfilled/")
	of, _, _ := strings.Cut(key, "/")
	for _, key := range []string{key, ccm.AnnotationKey(&m.Service, of)} {
		if _, ok := m.Annotations[key]; ok {
			return m.at("metadata", "annotations", key)
		}
	}
	if path := fields[f.Key]; path != nil {
		return m.at(path...)
	}
	if key := ccm.AnnotationKey(&m.Service, ccm.BalancerID); m.Annotations[key] != "" {
		return m.at("metadata", "annotations", key)
	}
	return m.at("metadata", "name")
}

// named refuses a namespace and Services that no manifest has: unexamined is not healthy.
func (e *examining) named(list []corev1.Service) error {
	for _, name := range e.services {
		if !slices.ContainsFunc(list, func(svc corev1.Service) bool { return svc.Namespace+"/"+svc.Name == name }) {
			return command.Wrong("no manifest has the Service %s; Services without a namespace are in default", name)
		}
	}
	if ns := e.scope.Namespace; ns != "" && !slices.ContainsFunc(list, func(svc corev1.Service) bool { return svc.Namespace == ns }) {
		return command.Wrong("no manifest has a Service in the namespace %s; Services without a namespace are in default", ns)
	}
	return nil
}

func allManifests(p *cli.Program, files []string) (list []manifest, misplaced []doctor.Finding, err error) {
	for _, file := range files {
		name, data, err := p.ReadText(file)
		if err != nil {
			return nil, nil, err
		}
		before := len(list) + len(misplaced)
		for _, doc := range split(data) {
			found, err := doc.services()
			if err != nil {
				return nil, nil, command.Wrong("%s: %w", name, err)
			}
			for _, m := range found {
				m.file = file
				if m.kind == "" {
					list = append(list, m)
				} else {
					misplaced = append(misplaced, m.misplaced())
				}
			}
		}
		if len(list)+len(misplaced) == before {
			return nil, nil, command.Wrong("%s holds no Service", name)
		}
	}
	return list, misplaced, nil
}

func (m *manifest) misplaced() doctor.Finding {
	keys := slices.Sorted(maps.Keys(m.Annotations))
	return doctor.Finding{
		Check: "kind", Severity: doctor.Warning, Key: "misplaced", File: m.file, Line: m.at("metadata", "annotations"),
		About: doctor.About{Kind: doctor.Kind(strings.ToLower(m.kind)), Namespace: m.Namespace, Name: m.Name},
		Text:  say.F("The controller reads its annotations on Services alone, and they have no effect on the kind %s: %s.", m.kind, say.List(keys, 3)),
		Do:    say.F("Set them on the Service of type LoadBalancer. For an Ingress that is the Service of its controller, such as kube-system/nginx-ingress-lb."),
	}
}

type document struct {
	text  []byte
	above int
}

func (d document) begins() int {
	blank := len(d.text) - len(bytes.TrimLeft(d.text, " \t\r\n"))
	return d.above + bytes.Count(d.text[:blank], []byte("\n")) + 1
}

// boundary matches the beginning or end of a document. A comment or its first line may follow on the same line.
var boundary = regex.New(`(?m)^(?:---|\.\.\.)(?:[ \t\r]|$)`)

// split splits a file into documents: the YAML library reads only the first.
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

var yamlLine = regex.New(`^.*?yaml: (?:unmarshal errors:\s*)?(?:line (\d+): )?`)

func (d document) services() ([]manifest, error) {
	if len(bytes.TrimSpace(d.text)) == 0 {
		return nil, nil
	}
	data, err := yaml.YAMLToJSONStrict(d.text)
	if err != nil {
		return nil, d.wrong(err)
	}
	tree := config.Parse(d.text)
	return d.object(data, "", func(path ...string) int { return d.above + tree.Line(path...) })
}

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
	return say.Errorf("near line %d: %s", d.above+n, rest) // it may be the line before
}

// object returns the Services in an object whose fields are on these lines. Entries of a ServiceList have no kind.
func (d document) object(data []byte, kind string, at func(path ...string) int) ([]manifest, error) {
	if string(bytes.TrimSpace(data)) == "null" {
		return nil, nil // only comments
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
		var list []manifest
		for i, item := range head.Items {
			found, err := d.object(item, strings.TrimSuffix(head.Kind, "List"), func(path ...string) int {
				return at(append([]string{"items", strconv.Itoa(i)}, path...)...)
			})
			if err != nil {
				return nil, err
			}
			list = append(list, found...)
		}
		return list, nil
	case head.Kind == "":
		return nil, say.Errorf("the document that starts in line %d has no kind", d.begins())
	case head.Kind != "Service", head.APIVersion != "" && head.APIVersion != "v1": // Knative has a kind Service too
		var other struct {
			Metadata metav1.ObjectMeta
			Spec     struct {
				Template struct{ Metadata metav1.ObjectMeta }
			}
		}
		_ = json.Unmarshal(data, &other) // annotations in another form don't count
		all := maps.Clone(other.Metadata.Annotations)
		if all == nil {
			all = map[string]string{}
		}
		maps.Copy(all, other.Spec.Template.Metadata.Annotations)
		other.Metadata.Annotations = all
		maps.DeleteFunc(other.Metadata.Annotations, func(key, _ string) bool {
			return !strings.HasPrefix(key, ccm.Prefix) && !strings.HasPrefix(key, ccm.LegacyPrefix)
		})
		if len(other.Metadata.Annotations) == 0 {
			return nil, nil
		}
		return []manifest{{Service: corev1.Service{ObjectMeta: other.Metadata}, kind: head.Kind, at: at}}, nil
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
	svc.UID, svc.Status = "", corev1.ServiceStatus{} // left by kubectl get, from another object
	for i := range svc.Spec.Ports {
		svc.Spec.Ports[i].Protocol = cmp.Or(svc.Spec.Ports[i].Protocol, corev1.ProtocolTCP) // as the API server does
	}
	return []manifest{{Service: svc, at: at}}, nil
}
