package remedy

import (
	"fmt"
	"regexp"
	"strings"
)

// LogQuery returns a command that shows what the controller has logged about a
// Service, "namespace/name": the error code, the API and the request ID, which its
// Events lack. On a managed cluster the log is in the log project of the control plane
// instead.
func LogQuery(service string) string {
	return "kubectl -n kube-system logs -l app=cloud-controller-manager --tail=-1 | grep " + service
}

// LogQuery returns the command of the function LogQuery for the Service of the case.
func (c *Case) LogQuery() string { return LogQuery(c.Service.Namespace + "/" + c.Service.Name) }

// saying is how much of a message a sentence shows.
const saying = 200

// before is what the controller puts before what went wrong.
var before = regexp.MustCompile(`^\s*code: \d+, |^Error \w+ load balancer(?: \[[^\]]*\])?: `)

// Said returns what went wrong in the words of the failure's message, in quotes: of
// an API's error its text alone. It is cut where it is long.
func (c *Case) Said() string {
	text := c.Event.Message
	if _, said, ok := strings.Cut(text, "Message:"); ok {
		text, _, _ = strings.Cut(strings.TrimSpace(said), "\n")
		text, _, _ = strings.Cut(text, ".. ")
		text, _, _ = strings.Cut(text, "., ") // what wrapped the error goes on
	}
	text = strings.Trim(strings.Join(strings.Fields(before.ReplaceAllString(text, "")), " "), "., ")
	for strings.HasSuffix(text, "]") && strings.Count(text, "]") > strings.Count(text, "[") {
		text = strings.TrimRight(text[:len(text)-1], "., ") // of an aggregate, whose beginning the controller cuts off
	}
	if len(text) > saying {
		return fmt.Sprintf("%q…", strings.ToValidUTF8(text[:saying], ""))
	}
	return fmt.Sprintf("%q", text)
}
