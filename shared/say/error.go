package say

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/regex"
)

// Errorf is fmt.Errorf for an error that people read.
func Errorf(format string, args ...any) error {
	m, args := Message{Format: format}, slices.Clone(args)
	for i, a := range args {
		switch one := a.(type) {
		case error:
			a = Of(one)
		case time.Duration:
			args[i] = span(one)
		}
		m.Args = append(m.Args, plain(a))
	}
	return sentence{fmt.Errorf(format, args...), Text{m}}
}

type sentence struct {
	error
	said Text
}

func (s sentence) Unwrap() error { return s.error }

// Of returns an error as a text: parts made by Errorf as messages, the rest as literals.
func Of(err error) Text {
	if s, ok := err.(sentence); ok {
		return s.said
	}
	var inner []error
	switch e := err.(type) {
	case interface{ Unwrap() []error }:
		inner = e.Unwrap()
	case interface{ Unwrap() error }:
		if one := e.Unwrap(); one != nil {
			inner = []error{one}
		}
	}
	m, rest := Message{}, err.Error()
	for _, one := range inner {
		t := Of(one)
		before, after, found := strings.Cut(rest, one.Error())
		switch {
		case !found || len(t) == 0 || len(t) == 1 && t[0].Format == "%s":
			continue
		case before == "" && after == "" && len(m.Args) == 0:
			return t
		}
		m.Format, m.Args, rest = m.Format+"%s%s", append(m.Args, before, t), after
	}
	if len(m.Args) == 0 {
		return Literal(rest)
	}
	return Text{{Format: m.Format + "%s", Args: append(m.Args, rest)}}
}

var wraps = regex.New(`(^|[^%])%(\[\d+\])?w`)

// sprint is fmt.Sprintf with %w.
func sprint(format string, args ...any) string {
	if strings.Contains(format, "w") {
		format = wraps().ReplaceAllString(format, "${1}%${2}v")
	}
	return fmt.Sprintf(format, args...)
}
