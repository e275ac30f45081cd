package remedy

import (
	"fmt"
	"net/netip"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/regex"
)

// LogQuery returns a command that shows the controller's log of a Service, "namespace/name", with the error code, API and request ID
// that its Events lack. A managed cluster has the log in the control plane's log project.
func LogQuery(service string) string {
	return "kubectl -n kube-system logs -l app=cloud-controller-manager --tail=-1 | grep " + service
}

// LogQuery returns the command for the object of the case; for the cluster, about the controller's part that keeps routes.
func (c *Case) LogQuery() string {
	switch c.Event.Service.Kind {
	case event.KindNode:
		return LogQuery(c.Event.Service.Name)
	case event.KindCluster:
		return LogQuery(event.RouteObject)
	}
	return LogQuery(c.Service.Namespace + "/" + c.Service.Name)
}

const saying = 200

var before = regex.New(`^\s*code: \d+, |^Error \w+ load balancer(?: \[[^\]]*\])?: |` +
	`^Error (?:adding|updating|removing) [a-z ]+(?: \[[^\]]*\])?: (?:\S+ failed to \w+ service hash:, error: )?`)

// Said returns the error in the words of the message, quoted and shortened; of an API error only the text.
func (c *Case) Said() string {
	text := c.Event.Message
	if _, said, ok := strings.Cut(text, "Message:"); ok {
		text, _, _ = strings.Cut(strings.TrimSpace(said), "\n")
		text, _, _ = strings.Cut(text, ".. ")
		text, _, _ = strings.Cut(text, "., ") // the rest comes from wrappers of the error
	}
	text = strings.Trim(strings.Join(strings.Fields(before().ReplaceAllString(text, "")), " "), "., ")
	for strings.HasSuffix(text, "]") && strings.Count(text, "]") > strings.Count(text, "[") {
		text = strings.TrimRight(text[:len(text)-1], "., ") // of an aggregate, whose beginning the controller cuts off
	}
	if len(text) > saying {
		return fmt.Sprintf("%q…", strings.ToValidUTF8(text[:saying], ""))
	}
	return fmt.Sprintf("%q", text)
}

// Family returns the address family of the Service's backends: IPv4, or IPv6 if load balancer and backends are annotated so and the
// controller has the feature gates, which cannot be read (pkg/controller/service/reconcile/backend/backend.go). An address in the
// event decides; in a class that ignores the Event, only about the gates.
func (c *Case) Family() discoveryv1.AddressType {
	if _, asks := ccm.Annotation(c.Service, "backend-ip-version"); c.Remedy.IgnoresEvent && !(asks && ccm.AsksIPv6(c.Service)) {
		return ccm.FamilyOf(c.Service)
	}
	for word := range strings.FieldsFuncSeq(c.Event.Message, func(r rune) bool { return !strings.ContainsRune("0123456789abcdefABCDEF.:", r) }) {
		ip, err := netip.ParseAddr(word)
		switch {
		case err != nil || ip.IsUnspecified():
		case ip.Is4():
			return discoveryv1.AddressTypeIPv4
		default:
			return discoveryv1.AddressTypeIPv6
		}
	}
	return ccm.FamilyOf(c.Service)
}
