package paste

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/regex"
)

const (
	notController = "Nothing shows that the line is of the log of Alibaba Cloud's controller."
	noError       = "The line of the log tells of no error."
)

// syncFailed are messages of the controller (pkg/controller/service/clbv1/service_controller.go and nlbv2/nlb_controller.go of v2.14.0)
// and controller-runtime.
var syncFailed = []string{"reconcile loadbalancer failed", "Reconciler error"}

// Forms of log lines. Prefixes before klog's own header, by collectors, kubectl logs --prefix and the journal, contain no quotes.
var (
	klogLine = regex.New(`(?s)^[^"]{0,240}?\b([IWEF])\d{4} \d\d:\d\d:\d\d\.\d+\s+\d+ ([\w./-]+:\d+)\] (.*)$`)
	zapLine  = regex.New(`(?s)^(?:[^"]{0,240}?\s)?(DEBUG|INFO|WARN|ERROR|DPANIC|PANIC|FATAL)\t(.*?)\s*(\{.*\})?\s*$`)
	logfmt   = regex.New(`\b(?:level|reason)=\w+.*\bmsg=|\bmsg=.*\blevel=\w+`)
	pair     = regex.New(`(?s)(?:^|\s)"?([A-Za-z_][\w.]*)"?=("(?:[^"\\]|\\.)*"|\{[^{}]*\}|[^\s"]+)`)
	leading  = regex.New(`(?s)^"((?:[^"\\]|\\.)*)"(?:\s|$)`)
	logger   = regex.New(`^([A-Za-z][\w./-]*)\s+"`)
	oldEvent = regex.New(`(?s)^Event\(v1\.ObjectReference\{Kind:"(\w*)", Namespace:"([^"]*)", Name:"([^"]*)".*?\}\): ` +
		`type: '(\w*)' reason: '(\w*)' (.*)$`)
	inlineLog = regex.New(`"kind":\s*"(\w+)"`)
	ownError  = regex.New(`\[SDKError\] API: \w*(?:LoadBalancer|Listener|VServerGroup|ServerGroup|AccessControl)`)
	balancers = regex.New(`\b[sn]lb(?:[.-][a-z0-9-]+)*\.aliyuncs\.com`)
	syncing   = regex.New(`failed to (?:ensure|delete|update) load balancer`)
)

func logLine(line string) (Text, bool) {
	if m := klogLine().FindStringSubmatch(line); m != nil {
		return klog(m[1], m[2], strings.TrimSpace(m[3])), true
	}
	if m := zapLine().FindStringSubmatch(line); m != nil {
		_, f := read([]byte(m[3])) // a line without fields has no JSON
		name, message, _ := strings.Cut(m[2], "\t")
		f["level"], f["logger"], f["msg"] = cmp.Or(f["level"], m[1]), cmp.Or(f["logger"], name), cmp.Or(f["msg"], message)
		return f.logged(), true
	}
	if logfmt().MatchString(line) {
		return pairs(line).logged(), true
	}
	return Text{}, false
}

func klog(level, file, text string) Text {
	if m := oldEvent().FindStringSubmatch(text); m != nil {
		return fields{"kind": m[1], "namespace": m[2], "name": m[3], "type": m[4], "reason": m[5], "message": m[6]}.text(Log)
	}
	f := pairs(text)
	if m := leading().FindStringSubmatch(text); m != nil {
		f["msg"] = unquote(`"` + m[1] + `"`)
	}
	if m := logger().FindStringSubmatch(text); m != nil {
		f["logger"] = m[1]
	}
	if f.get("msg", "error", "err") == "" {
		f["msg"] = text
	}
	f["level"], f["caller"] = level, file
	return f.logged()
}

func pairs(line string) fields {
	all := fields{}
	for _, m := range pair().FindAllStringSubmatch(line, -1) {
		if all[m[1]] = unquote(m[2]); m[2] == "null" || m[2] == "<nil>" {
			delete(all, m[1])
		}
	}
	return all
}

func unquote(s string) string {
	if !strings.HasPrefix(s, `"`) {
		return s
	}
	if plain, err := strconv.Unquote(strings.ReplaceAll(s, "\n", `\n`)); err == nil {
		return plain
	}
	return strings.Trim(s, `"`)
}

// logged reads a record of a log.
func (f fields) logged() Text {
	t := Text{Kind: Log, Service: f.get("service", "object")}
	if f["namespace"] != "" && f["name"] != "" {
		t.Service = name(f["namespace"], f["name"])
	}
	if f["reason"] != "" { // a written Event
		kind := f["kind"]
		if m := inlineLog().FindStringSubmatch(f["object"]); m != nil {
			kind, t.Service = m[1], ""
		}
		t.Input = event.Input{Reason: f["reason"], Type: f["type"], Message: f.get("message", "msg")}
		return about(t, kind)
	}
	said := f.get("error", "err", "msg", "message")
	t.Input.Message = said
	writer := f.get("controller", "logger")
	writer = writer[strings.LastIndexAny(writer, "/.")+1:]
	level := strings.ToUpper(f["level"])
	switch {
	case (strings.HasPrefix(level, "I") || level == "DEBUG") && f.get("error", "err") == "" && !wrapper().MatchString(said):
		t.Why = noError
	case writer != "":
		t.Input.Component = writer
		if slices.Contains(syncFailed, f.get("msg", "message")) {
			t.Input.Reason = "SyncLoadBalancerFailed"
		}
	case ownError().MatchString(said):
		t.Input.Message = said[strings.Index(said, "[SDKError]"):]
	default:
		// Anybody can have written this: a known text at its beginning proves nothing, unlike in a message alone, and is moved from there.
		if e, ok := toolError(said); ok {
			t.Input.Message, t.Why = e.Input.Message, e.Why
			if t.Why == "" && !syncing().MatchString(said) && !balancers().MatchString(said) {
				t.Why = notController
			}
			break
		}
		t.Input.Message = cmp.Or(f["caller"], "log") + ": " + said
	}
	return t
}
