package doctor

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

//go:embed annotations.md
var annotationsDoc string

// annotations looks for annotations that have no effect, or not the one that they name.
var annotations = &doctor.Check{
	ID:       "annotations",
	Doc:      annotationsDoc,
	Needs:    []doctor.Part{doctor.Services},
	Uses:     []doctor.Part{doctor.Controller},
	Manifest: true,
	Find:     findAnnotations,
	Fix:      &doctor.Fix{Steps: []remedy.Step{step.RemoveAnnotation{}}, Annotations: sorted(table()), Plan: fixAnnotations},
}

func findAnnotations(s *doctor.Snapshot, r *doctor.Report) {
	_, versionErr := versionOf(s)
	known, rules := table(), ccm.ValueRules()
	for _, svc := range s.OfType() {
		l := annotationLook{snapshot: s, report: r, svc: svc, known: known, rules: rules, network: ccm.NLB(svc), byVersion: versionErr == nil}
		for _, key := range slices.Sorted(maps.Keys(svc.Annotations)) {
			l.key(key)
		}
		l.missing()
		if l.asks && versionErr != nil {
			r.Unknown(doctor.OfService(svc), fmt.Errorf("whether the controller knows its annotations: %w", versionErr))
		}
	}
}

// An annotationLook is one Service being looked at.
type annotationLook struct {
	snapshot  *doctor.Snapshot
	report    *doctor.Report
	svc       *corev1.Service
	known     names
	rules     []ccm.ValueRule
	network   bool
	byVersion bool // the controller's version is known
	asks      bool // an annotation depends on the version
}

// add reports something. What stands in the evidence is cut: an annotation may be as
// long as 256 KiB.
func (l *annotationLook) add(severity doctor.Severity, key, text, do string, evidence map[string]string) {
	for k, v := range evidence {
		evidence[k] = cut(v)
	}
	l.report.Add(doctor.Finding{Severity: severity, About: doctor.OfService(l.svc), Key: key, Text: say.Literal(text), Do: say.Literal(do), Evidence: evidence})
}

// key looks at one annotation.
func (l *annotationLook) key(key string) {
	short, legacy := l.known.short(key)
	if short == "" {
		if near, ok := l.known.nearPrefix(key); ok {
			l.add(doctor.Warning, key, fmt.Sprintf("The controller does not know the annotation %s, which has none of its prefixes and does nothing.", key),
				fmt.Sprintf("Did you mean %s? Set that one, and remove this: %s.", near, remove(l.svc, key)), map[string]string{"value": l.svc.Annotations[key]})
		}
		return
	}
	value := l.svc.Annotations[key]
	known, ok := l.known[short]
	read := ok && known.Read(l.network) != nil
	if legacy {
		if current, both := l.svc.Annotations[ccm.Prefix+short]; both {
			if read {
				l.twice(short, value, current)
			}
			return // what is wrong with the name is said once
		}
	}
	switch {
	case !ok:
		do := "Remove it, or look its name up in the documentation of ACK: " + l.remove(short, key) + "."
		if near := l.nearest(short); near != "" {
			do = fmt.Sprintf("Did you mean %s? Set that one, and remove this: %s.", near, l.remove(short, key))
		}
		l.add(doctor.Warning, short, fmt.Sprintf("The controller does not know the annotation %s, which does nothing.", key), do, map[string]string{"value": value})
	case !read:
		of, other := "a CLB", "NLBs"
		if l.network {
			of, other = "an NLB", "CLBs"
		}
		l.add(doctor.Warning, short, fmt.Sprintf("The annotation %s is for %s, and the Service has %s: it does nothing.", short, other, of),
			"Remove it: "+l.remove(short, key)+".", map[string]string{"value": value})
	case l.version(short, known):
		if l.value(short, value) {
			l.ports(short, value)
		}
	}
}

// remove returns the command by which a person removes an annotation, under whichever
// prefixes it stands.
func (l *annotationLook) remove(short, key string) string {
	if strings.Contains(short, "/") {
		return remove(l.svc, key)
	}
	return ccm.RemoveCommand(l.svc, short)
}

// twice reports an annotation that is set under both prefixes.
func (l *annotationLook) twice(short, old, current string) {
	severity, what := doctor.Info, "with the same value"
	if old != current {
		severity, what = doctor.Warning, fmt.Sprintf("as %s and as %s; the controller takes the second", ccm.Quote(old), ccm.Quote(current))
	}
	l.add(severity, "both/"+short, fmt.Sprintf("The annotation %s stands under the legacy prefix and the current one, %s.", short, what),
		"Remove the legacy one: "+remove(l.svc, ccm.LegacyPrefix+short)+".", map[string]string{"legacy": old, "current": current})
}

// value checks the value of the annotation and reports whether the controller accepts it.
func (l *annotationLook) value(short, value string) bool {
	for _, rule := range l.rules {
		if rule.Name != short || !rule.Reads(l.network) || value == "" || rule.Takes(value) {
			continue
		}
		// What the controller can't parse fails the next sync in full; what it passes
		// on may be refused, or taken for the default.
		severity := doctor.Warning
		if len(rule.Calls) > 0 {
			severity = doctor.Critical
		}
		l.add(severity, short, fmt.Sprintf("The annotation %s is %s, and it takes %s.", short, ccm.Quote(value), rule.Allowed),
			"Set it to what is meant: "+set(l.svc, short)+".", map[string]string{"value": value, "takes": rule.Allowed})
		return false
	}
	return true
}

// ports looks for ports that an annotation names and the Service does not have: most
// often they are target ports.
func (l *annotationLook) ports(short, value string) {
	at := map[string][]int{"protocol-port": {1}, "vgroup-port": {1}, "forward-port": {0, 1}}[short]
	if at == nil || len(l.svc.Spec.Ports) == 0 {
		return
	}
	var none []string
	for pair := range strings.SplitSeq(value, ",") {
		fields := strings.Split(strings.TrimSpace(pair), ":")
		for _, i := range at {
			if i >= len(fields) {
				continue // which fails, as the value says
			}
			has := slices.ContainsFunc(l.svc.Spec.Ports, func(p corev1.ServicePort) bool { return strconv.Itoa(int(p.Port)) == fields[i] })
			if _, err := strconv.Atoi(fields[i]); err == nil && !has && !slices.Contains(none, fields[i]) {
				none = append(none, fields[i])
			}
		}
	}
	if len(none) == 0 {
		return
	}
	noun := "port"
	if len(none) > 1 {
		noun = "ports"
	}
	l.add(doctor.Warning, short+"/ports", fmt.Sprintf("The annotation %s names the %s %s, which the Service does not have: that does nothing.", short, noun, remedy.List(none, shown)),
		"Name ports of the Service, not target ports or node ports: "+set(l.svc, short)+".", map[string]string{"value": value})
}

// version compares the releases that know the annotation with the cluster's, and
// reports whether that reads it, as far as is known.
func (l *annotationLook) version(short string, known ccm.KnownKey) bool {
	span := known.Read(l.network)
	if *span == (ccm.Span{}) {
		return true
	}
	if l.network && span.From == ccm.FirstNLB() && span.Until == (ccm.Version{}) {
		return true // without it there is no NLB at all, and missing says so
	}
	l.asks = true
	v := l.snapshot.Controller.Version
	if !l.byVersion || span.Fits(v) {
		return true
	}
	evidence := map[string]string{"CCM": v.String()}
	if v.Before(span.From) {
		evidence["needs"] = span.From.String()
		l.add(doctor.Warning, short, fmt.Sprintf("CCM %s does not know the annotation %s, which needs %s or later: it does nothing.", v, short, span.From),
			fmt.Sprintf("Upgrade the controller to %s or later, or remove the annotation.", span.From), evidence)
		return false
	}
	evidence["until"] = span.Until.String()
	l.add(doctor.Warning, short, fmt.Sprintf("CCM %s reads the annotation %s no more, which ended with %s: it does nothing.", v, short, span.Until),
		renamed(short), evidence)
	return false
}

// renamed says what took the place of an annotation.
func renamed(short string) string {
	if short == "slb-network-type" {
		return fmt.Sprintf("Set %s in its place.", ccm.Prefix+"network-type")
	}
	return "Remove it."
}

// missing looks for annotations that an NLB requires.
func (l *annotationLook) missing() {
	if !l.network {
		return
	}
	id, _ := ccm.Annotation(l.svc, "id")
	if zones, _ := ccm.Annotation(l.svc, "zone-maps"); zones == "" && id == "" {
		l.add(doctor.Critical, "zone-maps", "The annotation zone-maps is missing, without which no NLB can be made.",
			"Set it to a vSwitch in each of two zones: "+set(l.svc, "zone-maps")+".", nil)
	}
	l.asks = true
	v := l.snapshot.Controller.Version
	if !l.byVersion {
		return
	}
	if v.Before(ccm.FirstNLB()) {
		l.add(doctor.Critical, "loadBalancerClass", fmt.Sprintf("CCM %s knows no NLBs, which need %s or later: nobody answers for the Service.", v, ccm.FirstNLB()),
			fmt.Sprintf("Upgrade the controller to %s or later, or make the Service again without the loadBalancerClass.", ccm.FirstNLB()),
			map[string]string{"CCM": v.String()})
		return
	}
	if zones, _ := ccm.Annotation(l.svc, "zone-maps"); v.Before(ccm.FirstZoneEIP()) && slices.ContainsFunc(strings.Split(zones, ","), withEIP) {
		l.add(doctor.Warning, "zone-maps/eip", fmt.Sprintf("The annotation zone-maps names an EIP, which CCM %s does not read: that needs %s or later.", v, ccm.FirstZoneEIP()),
			fmt.Sprintf("Upgrade the controller to %s or later, or leave the EIP out.", ccm.FirstZoneEIP()), map[string]string{"CCM": v.String(), "value": zones})
	}
	if v.Before(ccm.FirstRanges()) && len(l.svc.Spec.LoadBalancerSourceRanges) > 0 {
		l.add(doctor.Warning, "loadBalancerSourceRanges", fmt.Sprintf("CCM %s does not keep to the source ranges of a Service with an NLB, which needs %s or later: everybody gets through.", v, ccm.FirstRanges()),
			fmt.Sprintf("Upgrade the controller to %s or later, or limit the sources by security groups: %s.", ccm.FirstRanges(), set(l.svc, "security-group-ids")), map[string]string{"CCM": v.String()})
	}
}

// withEIP reports whether an entry of the annotation zone-maps,
// zone:vSwitch[:address[:EIP]], names an EIP.
func withEIP(entry string) bool {
	fields := strings.Split(entry, ":")
	return len(fields) > 3 && fields[3] != ""
}

// fixAnnotations removes an annotation under the legacy prefix if the current one is set.
func fixAnnotations(_ *doctor.Snapshot, svc *corev1.Service, found []doctor.Finding) remedy.Plan {
	remove := step.RemoveAnnotation{Was: map[string]string{}}
	var ask say.Text
	for _, f := range found {
		short, ok := strings.CutPrefix(f.Key, "both/")
		if !ok {
			ask = ask.Then(f.Text).Then(f.Do)
			continue
		}
		key := ccm.LegacyPrefix + short
		remove.Names, remove.Was[key] = append(remove.Names, key), svc.Annotations[key]
	}
	if len(remove.Names) == 0 {
		return remedy.Plan{Finding: say.F("Only a person can correct the annotations of the Service."), Ask: ask}
	}
	return remedy.Plan{
		Finding: say.F("The Service has %s under the legacy prefix that the current prefix overrides.", say.Count(len(remove.Names), "annotation")),
		Steps:   []remedy.Step{remove}, Ask: ask,
	}
}

// names are the annotations that the controller reads, by name.
type names map[string]ccm.KnownKey

func table() names {
	all := names{}
	for _, k := range ccm.KnownKeys() {
		all[k.Name] = k
	}
	return all
}

// short returns the short name of an annotation of the controller's, or its whole
// key where it has another prefix, and whether it has the legacy prefix; empty if it is
// none of the controller's.
func (n names) short(key string) (short string, legacy bool) {
	if short, ok := strings.CutPrefix(key, ccm.Prefix); ok {
		return short, false
	}
	if short, ok := strings.CutPrefix(key, ccm.LegacyPrefix); ok {
		return short, true
	}
	if _, ok := n[key]; ok && strings.Contains(key, "/") {
		return key, false
	}
	return "", false
}

// nearPrefix returns the annotation that a key with another prefix was probably meant to
// be, and whether there is one.
func (n names) nearPrefix(key string) (string, bool) {
	if key != ccm.BackendType && distance(key, ccm.BackendType) <= 3 {
		return ccm.BackendType, true
	}
	lower := strings.ToLower(key)
	if !strings.Contains(lower, "alibaba") && !strings.Contains(lower, "alicloud") && !strings.Contains(lower, "aliyun") {
		return "", false // another cloud's
	}
	for _, mark := range []string{"loadbalancer-", "load-balancer-", "loadbalancer_"} {
		i := strings.Index(lower, mark)
		if i < 0 {
			continue
		}
		short := lower[i+len(mark):]
		if _, ok := n[short]; ok && !strings.Contains(short, "/") {
			return ccm.Prefix + short, true
		}
	}
	return "", false
}

// nearest returns the annotation that this release reads and whose name is spelled most
// like this one; empty if none is like it.
func (l *annotationLook) nearest(short string) string {
	best, least := "", max(2, len(short)/4)+1
	for _, name := range sorted(l.known) {
		span := l.known[name].Read(l.network)
		if span == nil || span.Until != (ccm.Version{}) && !(l.byVersion && span.Fits(l.snapshot.Controller.Version)) {
			continue
		}
		key, spelled := ccm.Prefix+name, name
		if i := strings.LastIndex(name, "/"); i >= 0 {
			key, spelled = name, name[i+1:]
		}
		if d := distance(short, spelled); d < least {
			best, least = key, d
		}
	}
	return best
}

// distance returns how many letters have to be put in, taken out or changed to make
// one word of the other.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		left := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			left, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, left+cost)
		}
	}
	return row[len(b)]
}
