package paste

import (
	"cmp"
	"encoding/json"
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
		var record map[string]any
		_ = json.Unmarshal([]byte(m[3]), &record) // a line without fields has no JSON
		name, message, _ := strings.Cut(m[2], "\t")
		return logRecord(func(keys ...string) string {
			for _, key := range keys {
				if s, ok := record[key].(string); ok && s != "" {
					return s
				}
				switch key {
				case "level":
					return m[1]
				case "logger":
					return name
				case "msg":
					return message
				}
			}
			return ""
		}), true
	}
	if logfmt().MatchString(line) {
		all := pairs(line)
		return logRecord(func(keys ...string) string {
			for _, key := range keys {
				if all[key] != "" {
					return all[key]
				}
			}
			return ""
		}), true
	}
	return Text{}, false
}

func klog(level, file, text string) Text {
	if m := oldEvent().FindStringSubmatch(text); m != nil {
		t := Text{Kind: Log, Service: name(m[2], m[3]), Input: event.Input{Type: m[4], Reason: m[5], Message: m[6]}}
		return about(t, m[1])
	}
	all := pairs(text)
	if m := leading().FindStringSubmatch(text); m != nil {
		all["msg"] = unquote(`"` + m[1] + `"`)
	}
	if m := logger().FindStringSubmatch(text); m != nil {
		all["logger"] = m[1]
	}
	if all["msg"] == "" && all["error"] == "" && all["err"] == "" {
		all["msg"] = text
	}
	all["level"], all["caller"] = level, file
	return logRecord(func(keys ...string) string {
		for _, key := range keys {
			if all[key] != "" {
				return all[key]
			}
		}
		return ""
	})
}

func pairs(line string) map[string]string {
	all := map[string]string{}
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

func logRecord(get func(keys ...string) string) Text {
	t := Text{Kind: Log, Service: get("service", "object")}
	if ns, n := get("namespace"), get("name"); ns != "" && n != "" {
		t.Service = name(ns, n)
	}
	if reason := get("reason"); reason != "" { // a written Event
		kind := get("kind")
		if m := inlineLog().FindStringSubmatch(get("object")); m != nil {
			kind, t.Service = m[1], ""
		}
		t.Input = event.Input{Reason: reason, Type: get("type"), Message: cmp.Or(get("message"), get("msg"))}
		return about(t, kind)
	}
	said := cmp.Or(get("error", "err"), get("msg", "message"))
	t.Input.Message = said
	writer := get("controller", "logger")
	writer = writer[strings.LastIndexAny(writer, "/.")+1:]
	level := strings.ToUpper(get("level"))
	switch {
	case (strings.HasPrefix(level, "I") || level == "DEBUG") && get("error", "err") == "" && !wrapper().MatchString(said):
		t.Why = noError
	case writer != "":
		t.Input.Component = writer
		if slices.Contains(syncFailed, get("msg", "message")) {
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
		t.Input.Message = cmp.Or(get("caller"), "log") + ": " + said
	}
	return t
}
