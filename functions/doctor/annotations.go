package doctor

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/regex"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say"
	"github.com/lbremedy/lbremedy/shared/step"
)

// annotations looks for annotations that have no effect, or not the intended one.
var annotations = &doctor.Check{
	ID:       "annotations",
	Doc:      page("annotations"),
	Needs:    []doctor.Part{doctor.Services},
	Uses:     []doctor.Part{doctor.Controller},
	Manifest: true,
	Find:     findAnnotations,
	Fix:      &doctor.Fix{Steps: []remedy.Step{step.RemoveAnnotation{}}, Annotations: sorted(ccm.Known()), Plan: fixAnnotations},
}

func findAnnotations(s *doctor.Snapshot, r *doctor.Report) {
	runs, versionErr := versionOf(s)
	if runs.TooNew() {
		r.Add(doctor.Finding{
			Severity: doctor.Warning, About: s.OfCluster(), Key: "newer",
			Text: say.F("The controller is %s, and lbremedy knows releases up to %s.", runs, ccm.Newest()).
				And("Whether it reads an annotation that these do not is not known, and the risk of every plan is one step higher."),
			Do:       say.F("Use a newer lbremedy, or let this one only observe."),
			Evidence: map[string]string{"CCM": runs.String()},
		})
	}
	if err := s.Err(doctor.Controller); err != nil && !errors.Is(err, doctor.ErrNoCluster) {
		r.Unknown(s.OfCluster(), say.Errorf("whether the controller is newer than the releases that lbremedy knows: %w", err))
	}
	known, rules := ccm.Known(), ccm.ValueRules()
	for _, svc := range s.OfType() {
		l := annotationLook{snapshot: s, report: r, svc: svc, known: known, rules: rules, network: ccm.NLB(svc),
			byVersion: versionErr == nil, newer: runs.TooNew()}
		for _, key := range slices.Sorted(maps.Keys(svc.Annotations)) {
			l.key(key)
		}
		l.spec()
		l.missing()
		if l.asks && versionErr != nil {
			r.Unknown(doctor.OfService(svc), say.Errorf("whether the controller knows its annotations: %w", versionErr))
		}
	}
}

type annotationLook struct {
	snapshot  *doctor.Snapshot
	report    *doctor.Report
	svc       *corev1.Service
	known     ccm.Names
	rules     []ccm.ValueRule
	network   bool
	byVersion bool // the version of the controller is known
	newer     bool // the controller is newer than the newest known release
	asks      bool // an annotation depends on the version
}

// add shortens the values in the evidence: an annotation can be 256 KiB long.
func (l *annotationLook) add(severity doctor.Severity, key string, text, do say.Text, evidence map[string]string) {
	for k, v := range evidence {
		evidence[k] = cut(v)
	}
	l.report.Add(doctor.Finding{Severity: severity, About: doctor.OfService(l.svc), Key: key, Text: text, Do: do, Evidence: evidence})
}

func (l *annotationLook) key(key string) {
	short, legacy := l.known.Short(key)
	value := l.svc.Annotations[key]
	if key == typeAnnotation {
		return // the check kind reports it
	}
	if left := unfilled().FindString(value); left != "" && short != "" {
		l.unfilled(key, left)
		return
	}
	if short == "" {
		near, ok := l.known.NearPrefix(key)
		switch {
		case ok && l.newer:
			l.mayBeNew(key, key, say.F("lbremedy does not know the prefix of the annotation %s.", key), near)
		case ok:
			l.add(doctor.Warning, key, say.F("The annotation %s has no effect: the controller does not know its prefix.", key),
				say.F("If %s is meant, set that annotation. Remove this one: %s.", near, remove(l.svc, key)), map[string]string{"value": value})
		}
		return
	}
	known, ok := l.known[short]
	read := ok && known.Read(l.network) != nil
	if legacy {
		if current, both := l.svc.Annotations[ccm.Prefix+short]; both {
			if read {
				l.twice(short, value, current)
			}
			return // the other key reports problems with the name
		}
	}
	switch {
	case !ok && l.newer:
		l.mayBeNew(short, key, say.F("lbremedy does not know the annotation %s.", short), l.known.Nearest(short, l.network, l.reads))
	case !ok:
		do := say.F("Remove it: %s. If another annotation is meant, look up its name in the documentation of ACK.", l.remove(short, key))
		switch near := cmp.Or(meant(short, l.network), l.known.Nearest(short, l.network, l.reads)); {
		case near != "":
			do = say.F("If %s is meant, set that annotation. Remove this one: %s.", near, l.remove(short, key))
		case protects().MatchString(short):
			do = l.instead(short).And("Remove this one: %s.", l.remove(short, key))
		}
		l.add(doctor.Warning, short, say.F("The annotation %s has no effect: the controller does not know it.", short), do, map[string]string{"value": value})
	case !read && l.newer && l.network:
		l.mayBeNew(short, key, say.F("In the releases that lbremedy knows, the annotation %s is for CLBs, and the Service has an NLB.", short), "")
	case !read && l.newer:
		l.mayBeNew(short, key, say.F("In the releases that lbremedy knows, the annotation %s is for NLBs, and the Service has a CLB.", short), "")
	case !read:
		text := say.F("The annotation %s has no effect: it is for NLBs, and the Service has a CLB.", short)
		if l.network {
			text = say.F("The annotation %s has no effect: it is for CLBs, and the Service has an NLB.", short)
		}
		do := say.F("Remove it: %s.", l.remove(short, key))
		if !l.network {
			do = say.F("For an NLB, create the Service with spec.loadBalancerClass %s. Else remove it: %s.", ccm.NLBClass, l.remove(short, key))
		}
		if protects().MatchString(short) {
			do = l.instead(short).And("Remove this one: %s.", l.remove(short, key))
		}
		l.add(doctor.Warning, short, text, do, map[string]string{"value": value})
	case l.version(short, known):
		if l.value(short, value) {
			l.ports(short, value)
			l.redirects(short, value)
			l.denied(short, value)
		}
	}
}

// unfilled matches what a template or a page has left in a value: ${NAME}, {{ .Values.name }}, <name>, CHANGE_ME, xxxx.
var unfilled = regex.New(`\$\{[^}]*\}|\{\{[^}]*\}\}|<[A-Za-z][\w .:/-]*>|(?i:\b(?:change|replace)[-_]?me\b)|\bx{4,32}\b`)

func (l *annotationLook) unfilled(where, blank string) {
	l.add(doctor.Critical, "unfilled/"+where, say.F("The value of %s is not filled in yet: it has %s.", where, ccm.Quote(blank)),
		say.F("Put the value in its place."), nil)
}

// spec looks for such values in the other fields of a manifest.
func (l *annotationLook) spec() {
	if l.svc.UID != "" {
		return
	}
	for where, texts := range map[string][]string{
		"metadata.name": {l.svc.Name}, "metadata.namespace": {l.svc.Namespace}, "spec.loadBalancerIP": {l.svc.Spec.LoadBalancerIP},
		"spec.loadBalancerSourceRanges": l.svc.Spec.LoadBalancerSourceRanges, "spec.externalIPs": l.svc.Spec.ExternalIPs,
		"spec.selector": slices.Collect(maps.Values(l.svc.Spec.Selector)),
	} {
		if left := unfilled().FindString(strings.Join(texts, " ")); left != "" {
			l.unfilled(where, left)
		}
	}
}

// protects matches annotation names that are meant to restrict access or changes.
var protects = regex.New(`protect|acl|access|white|allow|deny|security|source-?range|cidr`)

// names maps what people write, from other clouds and older documentation, to the annotations that they mean.
var names = []struct{ written, clb, nlb string }{
	{"access-control-status", "acl-status", "security-group-ids"},
	{"access-control-id", "acl-id", "security-group-ids"},
	{"access-control-type", "acl-type", "security-group-ids"},
	{"zone-mapping", "", "zone-maps"},
	{"zone-mappings", "", "zone-maps"},
	{"security-group-id", "", "security-group-ids"},
	{"security-groups", "", "security-group-ids"},
}

func meant(short string, network bool) string {
	for _, n := range names {
		if n.written == short {
			if name := n.clb; !network && name != "" {
				return ccm.Prefix + name
			}
			if network {
				return ccm.Prefix + n.nlb
			}
		}
	}
	return ""
}

func (l *annotationLook) instead(short string) say.Text {
	switch guards := strings.Contains(short, "protect"); {
	case guards && l.network:
		return say.F("It protects nothing. CCM v2.9.1 and later turn on the deletion protection of an NLB when they create it.")
	case guards:
		return say.F("It protects nothing. To keep the CLB from being deleted or changed by hand, use delete-protection and modification-protection.")
	case l.network:
		return say.F("It protects nothing. To limit who reaches the NLB, use security-group-ids or spec.loadBalancerSourceRanges.")
	}
	return say.F("It protects nothing. To limit who reaches the CLB, use acl-status, acl-id and acl-type, or spec.loadBalancerSourceRanges.")
}

// mayBeNew reports an annotation that no known release reads, for a newer controller. near is the annotation that may be meant; empty:
// none is similar.
func (l *annotationLook) mayBeNew(name, key string, text say.Text, near string) {
	do := say.F("Look up in the documentation of ACK whether CCM %s reads it.", l.snapshot.Controller.Version)
	if near != "" {
		do = do.And("If %s is meant, set that annotation.", near)
	}
	l.add(doctor.Info, name, text.And("CCM %s is newer than the releases that lbremedy knows and may read it.", l.snapshot.Controller.Version), do,
		map[string]string{"value": l.svc.Annotations[key]})
}

func (l *annotationLook) remove(short, key string) say.Text {
	if strings.Contains(short, "/") {
		return remove(l.svc, key)
	}
	return drop(l.svc, short)
}

func (l *annotationLook) twice(short, old, current string) {
	severity := doctor.Info
	text := say.F("The annotation %s is set under the legacy prefix and under the current one, with the same value.", short)
	if old != current {
		severity = doctor.Warning
		text = say.F("The annotation %s is %s under the legacy prefix and %s under the current one. The controller uses the current one.",
			short, ccm.Quote(old), ccm.Quote(current))
	}
	l.add(severity, "both/"+short, text, say.F("Remove the legacy one: %s.", remove(l.svc, ccm.LegacyPrefix+short)),
		map[string]string{"legacy": old, "current": current})
}

func (l *annotationLook) value(short, value string) bool {
	for _, rule := range l.rules {
		if rule.Name != short || !rule.Reads(l.network) || value == "" || rule.Takes(value) {
			continue
		}
		// A value that the controller cannot parse fails the next full sync. One that it passes on may be refused, or replaced by the default.
		severity := doctor.Warning
		if len(rule.Calls) > 0 && !l.newer { // a newer release may take more
			severity = doctor.Critical
		}
		l.add(severity, short, say.F("The annotation %s is %s, but it takes %s.", short, ccm.Quote(value), rule.Allowed),
			say.F("Set a valid value: %s.", set(l.svc, short)), map[string]string{"value": value, "takes": rule.Allowed.String()})
		return false
	}
	return true
}

// ports looks for ports that an annotation names and the Service lacks, usually target ports.
func (l *annotationLook) ports(short, value string) {
	at, ok := map[string]int{"protocol-port": 1, "vgroup-port": 1, ccm.ForwardPort: 0}[short]
	if !ok || len(l.svc.Spec.Ports) == 0 {
		return
	}
	var none []string
	for pair := range strings.SplitSeq(value, ",") {
		fields := strings.Split(strings.TrimSpace(pair), ":")
		if at >= len(fields) {
			continue // value reports it
		}
		has := slices.ContainsFunc(l.svc.Spec.Ports, func(p corev1.ServicePort) bool { return strconv.Itoa(int(p.Port)) == fields[at] })
		if _, err := strconv.Atoi(fields[at]); err == nil && !has && !slices.Contains(none, fields[at]) {
			none = append(none, fields[at])
		}
	}
	if len(none) == 0 {
		return
	}
	l.add(doctor.Warning, short+"/ports",
		say.F("The annotation %s names %s that the Service does not have, which has no effect: %s.", short, say.Count(len(none), "port"), say.List(none, shown)),
		say.F("Name ports of the Service, not target ports or node ports: %s.", set(l.svc, short)), map[string]string{"value": value})
}

// redirects looks in a manifest for redirects to ports without a Service. A person's listener may be there: in a cluster, listeners-missing looks.
func (l *annotationLook) redirects(short, value string) {
	if short != ccm.ForwardPort || l.svc.UID != "" || !ccm.OwnsListeners(l.svc) {
		return
	}
	id, _ := ccm.Annotation(l.svc, ccm.BalancerID)
	away := slices.DeleteFunc(ccm.RedirectsAway(l.svc), func(port int) bool {
		return slices.ContainsFunc(l.snapshot.OfType(), func(other *corev1.Service) bool {
			theirs, _ := ccm.Annotation(other, ccm.BalancerID)
			return id != "" && theirs == id && serves(other, port)
		})
	})
	if len(away) == 0 {
		return
	}
	l.add(doctor.Info, short+"/redirect",
		say.F("The annotation %s redirects to %s that the Service does not have: %s.", short, say.Count(len(away), "port"), numbers(away)),
		say.F("Make sure that the load balancer has an HTTPS listener there. One that the controller creates has none but those of the Service."),
		map[string]string{"value": value})
}

// denied looks for a load balancer that is kept although its annotation says no.
func (l *annotationLook) denied(short, value string) {
	if short != ccm.Preserve || !ccm.DeniesPreserve(value) {
		return
	}
	l.add(doctor.Warning, short,
		say.F("The annotation %s is %s, but with any value the controller keeps the load balancer when the Service is deleted.", short, ccm.Quote(value)),
		say.F("To have the load balancer deleted with the Service, remove the annotation: %s.", drop(l.svc, short)).
			And("To keep it, say so: %s.", setTo(l.svc, ccm.Preserve, "true")), map[string]string{"value": value})
}

// version reports whether the running release reads the annotation, as far as that is known.
func (l *annotationLook) version(short string, known ccm.KnownKey) bool {
	span := known.Read(l.network)
	if *span == (ccm.Span{}) {
		return true
	}
	if l.network && span.From == ccm.FirstNLB() && span.Until == (ccm.Version{}) {
		return true // older releases support no NLB at all, which missing reports
	}
	l.asks = true
	v := l.snapshot.Controller.Version
	if !l.byVersion || span.Fits(v) {
		return true
	}
	evidence := map[string]string{"CCM": v.String()}
	if v.Before(span.From) {
		evidence["needs"] = span.From.String()
		l.add(doctor.Warning, short,
			say.F("The annotation %s has no effect: CCM %s does not know it. It needs %s or newer.", short, v, span.From),
			say.F("Upgrade the controller to %s or newer, or remove the annotation.", span.From), evidence)
		return false
	}
	evidence["until"] = span.Until.String()
	do := say.F("Remove it.")
	if next := ccm.Known()["network-type"].CLB; short == "slb-network-type" && next.Fits(v) {
		do = say.F("Set %s instead.", ccm.Prefix+"network-type")
	}
	l.add(doctor.Warning, short,
		say.F("The annotation %s has no effect: CCM %s no longer reads it. Support for it ended with %s.", short, v, span.Until), do, evidence)
	return false
}

// reads reports whether the running release is known to read an annotation of this span. An endless span includes unknown releases.
func (l *annotationLook) reads(span *ccm.Span) bool {
	return span.Until == (ccm.Version{}) || l.byVersion && span.Fits(l.snapshot.Controller.Version)
}

func (l *annotationLook) missing() {
	if !l.network {
		return
	}
	id, _ := ccm.Annotation(l.svc, "id")
	zones, _ := ccm.Annotation(l.svc, ccm.ZoneMap)
	if zones == "" && id == "" {
		l.add(doctor.Critical, "zone-maps", say.F("The annotation zone-maps is missing. The controller cannot create an NLB without it."),
			say.F("Set it to a vSwitch in each of two zones: %s.", set(l.svc, "zone-maps")), nil)
	}
	l.asks = true
	v := l.snapshot.Controller.Version
	if !l.byVersion {
		return
	}
	if v.Before(ccm.FirstNLB()) {
		l.add(doctor.Critical, "loadBalancerClass",
			say.F("No controller serves the Service: CCM %s does not support NLBs, which need %s or newer.", v, ccm.FirstNLB()),
			say.F("Upgrade the controller to %s or newer, or recreate the Service without the loadBalancerClass.", ccm.FirstNLB()),
			map[string]string{"CCM": v.String()})
		return
	}
	parts, _ := ccm.Zones(zones)
	if v.Before(ccm.FirstZoneEIP()) && slices.ContainsFunc(parts, func(z ccm.Zone) bool { return z.EIP != "" }) {
		l.add(doctor.Warning, "zone-maps/eip",
			say.F("The annotation zone-maps names an EIP, which CCM %s does not read. EIPs need %s or newer.", v, ccm.FirstZoneEIP()),
			say.F("Upgrade the controller to %s or newer, or remove the EIP.", ccm.FirstZoneEIP()), map[string]string{"CCM": v.String(), "value": zones})
	}
}

// fixAnnotations removes annotations with the legacy prefix where the current prefix is also set.
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
