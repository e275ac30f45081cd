package event

import (
	"bytes"
	"strings"
)

func (s *scan) verdict(in Input) Match {
	if why := s.notOurs(in); why != "" {
		return ignored(why)
	}
	if s.best.entry < 0 {
		if why := s.noFailure(in); why != "" {
			return ignored(why)
		}
		return unclassified("No text or code of any class stands in the message.")
	}
	e := s.c.entries[s.best.entry]
	m := Match{Class: e.class, Matched: e.text, By: ByText}
	switch {
	case s.best.code:
		m.By, m.Why = ByCode, "The message has this error code and no text that is known."
	case s.best.cut:
		m.Why = "The message breaks off in this text, and no other begins so."
	default:
		m.Why = "The message has this text."
	}
	if s.second.entry >= 0 {
		other := s.c.entries[s.second.entry]
		_, why := s.better(s.best, s.second)
		m.RunnerUp = other.class
		m.Why = `"` + other.text + `" ` + why + "."
	}
	return m
}

// tellingLength is the least length of a text that alone proves a message to be Alibaba Cloud's controller's; "NOCARD" does not.
const tellingLength = 12

// telling ignores the name of the text's field.
func telling(text string) bool { return len(strings.TrimPrefix(text, "message:")) >= tellingLength }

// notOurs returns why the message is not the controller's; empty if it is.
func (s *scan) notOurs(in Input) string {
	matched := s.best.entry >= 0 && s.c.entries[s.best.entry].tells
	ours := s.wrapped == wrapOwn || s.controller || s.api
	switch {
	case in.Reason == reasonFailed && !s.ownWording():
		return "The reason Failed counts only with the controller's own wording."
	case s.upstream && !ours:
		return "The wording is that of another cloud's service controller."
	case s.wrapped == wrapService && !ours && !matched:
		return "The wording is that of another cloud's service controller, and nothing names Alibaba Cloud."
	case s.otherCloud && !ours:
		return "The message names another cloud."
	case in.Component == "" && in.Reason != "" && !ours && !matched:
		return "Nothing shows that the message is of Alibaba Cloud's controller."
	case in.Component == "" && in.Reason == "" && s.wrapped != wrapOwn && !s.controller && !s.first() && !(matched && s.atStart()):
		return "Nothing shows that the message tells of a failed sync of a load balancer."
	}
	return ""
}

// noFailure returns why a message without a known text or code is not about a failed sync; empty if it is.
func (s *scan) noFailure(in Input) string {
	if in.Reason == "" && s.wrapped == wrapNone && !s.controller && !s.api {
		return "Nothing shows that the message tells of a failed sync of a load balancer."
	}
	return ""
}

// ownWording reports whether the message begins like the controller's own; its reason is the kubelet's too.
func (s *scan) ownWording() bool {
	return s.wrapped == wrapOwn && s.begin == start(s.text) && bytes.HasPrefix(s.text[s.begin:], []byte("fail to "))
}

// first reports whether the message begins like an error of the SDK of v1.9.3.
func (s *scan) first() bool { return bytes.HasPrefix(s.text[s.body:], []byte("aliyun api error")) }

// atStart reports whether the winner begins the message, as in an error copied from a page.
func (s *scan) atStart() bool {
	said := s.text[s.body:max(s.body, s.best.start)]
	for _, lead := range leads {
		if bytes.HasPrefix(s.text[s.body:], []byte(lead)) {
			return true
		}
	}
	// The pages put the bare code first.
	if code, after, ok := bytes.Cut(said, []byte(" message:")); ok && !bytes.Contains(code, []byte(" ")) {
		said = after
	}
	// A line of a log begins with the time.
	return len(said) <= 80 && !bytes.ContainsAny(said, ":;") && !(len(said) > 0 && said[0] >= '0' && said[0] <= '9')
}

var leads = []string{
	"message:", "code:", "errorcode:", "status code:", "aliyun api error", "[sdkerror]", "sdkerror:", "sdk.servererror", "sdk.clienterror", "[sdk.",
}
