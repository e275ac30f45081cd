package rules

import (
	"go/ast"
	"go/token"
	"strconv"
	"strings"
)

// keys are the keys of log lines and their meanings. One thing has the same key everywhere, so a search finds all lines about it.
var keys = map[string]string{
	"class":     "ID of the error class",
	"cluster":   "ID of the cluster",
	"consumer":  "name of a consumer of NATS, of a class in a cluster or of a follower of the journal",
	"namespace": "of the Service",
	"service":   "name of the Service",
	"event":     "id of the CloudEvent",
	"case":      "ID of the case",
	"outcome":   "how a run ended",
	"step":      "kind of a step",
	"error":     "what went wrong, redacted where it comes from outside",

	"about":     "what a Kubernetes Event is about",
	"address":   "that an endpoint listens on",
	"again":     "how long until something is tried again",
	"call":      "ID of a call of a function",
	"button":    "that somebody has clicked in a chat",
	"cases":     "numbers of cases: opened, closed, that stand, as a sentence",
	"change":    "what a set-up has changed, as a sentence",
	"closed":    "number of cases that a scheduled run closed",
	"failing":   "number of Services that fail for one cause",
	"file":      "that was read",
	"finding":   "of a plan",
	"id":        "of a ticket at its sink",
	"incident":  "ID of the incident",
	"key":       "in the bucket",
	"kubeevent": "namespace and name of a Kubernetes Event",
	"lock":      "key of a lock",
	"message":   "of a Kubernetes Event, redacted",
	"nats":      "where NATS is, without secrets",
	"opened":    "number of cases that a scheduled run opened",
	"over":      "number of Services that failed for one cause and do no more",
	"panic":     "value of a panic",
	"present":   "resource version that the cluster has",
	"published": "number of failures that were stored",
	"reason":    "why something is so, as a sentence",
	"request":   "ID that the platform gave a request",
	"saved":     "resource version that was saved",
	"sequence":  "of a message in its stream",
	"silence":   "how long nothing got through",
	"sink":      "name of a sink",
	"stack":     "of a panic",
	"stand":     "number of cases of the doctor that stand",
	"status":    "of a ticket, of HTTP or of NATS",
	"subject":   "of a message",
	"text":      "what a step does",
	"unknown":   "number of things that the doctor could not tell",
	"ticket":    "key of a ticket",
	"uid":       "of the object that a call is about",
	"user":      "of a chat, as its platform knows them",
	"version":   "of the program, or a resource version",
}

// logs checks that log lines use known keys, in calls of values named log or Log, the names of all loggers here.
func logs(tr *tree) []string {
	var out []string
	for _, f := range tr.code() {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !logger(method.X) {
				return true
			}
			var pairs []ast.Expr
			switch method.Sel.Name {
			case "With":
				pairs = call.Args
			case "Debug", "Info", "Warn", "Error":
				pairs = call.Args[min(1, len(call.Args)):]
			}
			if call.Ellipsis.IsValid() {
				return true
			}
			for i := 0; i < len(pairs); i += 2 {
				lit, ok := pairs[i].(*ast.BasicLit)
				key := ""
				if ok && lit.Kind == token.STRING {
					key, _ = strconv.Unquote(lit.Value)
				}
				if keys[key] == "" {
					out = append(out, tr.at(pairs[i].Pos(), "the log key %q is not known: use one of those in test/rules/log_test.go, or add it there with "+
						"what it holds", key))
				}
			}
			return true
		})
	}
	return out
}

// logger reports whether an expression has the form of a logger: log, x.log, c.Log, p.log(), or With of one.
func logger(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.Ident:
		return strings.EqualFold(e.Name, "log")
	case *ast.SelectorExpr:
		return strings.EqualFold(e.Sel.Name, "log")
	case *ast.CallExpr:
		s, ok := e.Fun.(*ast.SelectorExpr)
		return ok && (logger(s) || s.Sel.Name == "With" && logger(s.X))
	}
	return false
}
