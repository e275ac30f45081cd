package cloud

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aliyun/alibaba-cloud-sdk-go/sdk/requests"
)

// text is a string, also read from a number or a boolean, because the API varies.
type text string

// UnmarshalJSON reads any scalar; null is the empty text.
func (t *text) UnmarshalJSON(b []byte) error {
	switch {
	case b[0] == '"':
		var s string
		if err := json.Unmarshal(b, &s); err != nil {
			return err
		}
		*t = text(s)
	case b[0] == '{' || b[0] == '[':
		return errors.New("is not a string")
	case string(b) == "null":
		*t = ""
	default:
		*t = text(b)
	}
	return nil
}

type number struct {
	n  int64
	ok bool
}

// UnmarshalJSON reads an integer, also in quotes. Null and the empty string count as absent.
func (n *number) UnmarshalJSON(b []byte) error {
	var t text
	if err := t.UnmarshalJSON(b); err != nil {
		return errors.New("is not a number")
	}
	if t == "" {
		return nil
	}
	if v, err := strconv.ParseInt(string(t), 10, 64); err == nil {
		*n = number{v, true}
		return nil
	}
	f, err := strconv.ParseFloat(string(t), 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return fmt.Errorf("is not a whole number: %.20q", string(t))
	}
	*n = number{int64(f), true}
	return nil
}

// on is a boolean for fields whose absence means false.
type on bool

// UnmarshalJSON reads true and false, 1 and 0, on and off.
func (o *on) UnmarshalJSON(b []byte) error {
	var t text
	if err := t.UnmarshalJSON(b); err != nil {
		return errors.New("is neither true nor false")
	}
	switch strings.ToLower(string(t)) {
	case "true", "1", "on":
		*o = true
	case "false", "0", "off", "":
		*o = false
	default:
		return fmt.Errorf("is neither true nor false: %.20q", string(t))
	}
	return nil
}

func when(t text) time.Time {
	at, err := time.Parse(time.RFC3339, string(t))
	if err != nil {
		return time.Time{}
	}
	return at
}

func lack(format string, args ...any) error {
	return fmt.Errorf("the answer lacks "+format, args...)
}

// decode reads a good answer into a pointer, and checks it. An RPC answer without a request ID does not come from the API.
func decode(body []byte, rpc bool, into any, wrong func(any) error, e *Error) *Error {
	if len(bytes.TrimSpace(body)) == 0 {
		return e.bad(errors.New("the answer is empty"))
	}
	if rpc {
		var envelope wireError
		if err := json.Unmarshal(body, &envelope); err != nil {
			return e.bad(fmt.Errorf("unexpected form of the answer: %w", err))
		}
		if e.RequestID = string(envelope.RequestID); e.RequestID == "" {
			return e.bad(lack("a request ID"))
		}
	}
	if err := json.Unmarshal(body, into); err != nil {
		return e.bad(fmt.Errorf("unexpected form of the answer: %w", err))
	}
	return check(into, wrong, e)
}

func check(answer any, wrong func(any) error, e *Error) *Error {
	err := wrong(answer)
	if r, ok := err.(refusal); ok {
		return e.refusal(r)
	}
	if err != nil {
		return e.bad(err)
	}
	return nil
}

func (e *Error) bad(err error) *Error {
	e.kind, e.Code, e.Message = ErrUnavailable, codeBadAnswer, redactor{}.clean(err.Error())
	return e
}

type none struct{}

// absent returns the error for an empty argument; see needs.
func absent(product, action, what string) error {
	return &Error{Product: product, Action: action, Code: codeNotSent, Message: "the " + what + " is empty"}
}

func whole(n int) requests.Integer { return requests.NewInteger(n) }

// strs returns the texts as strings, without empty ones.
func strs(list []text) []string {
	var out []string
	for _, t := range list {
		if t != "" {
			out = append(out, string(t))
		}
	}
	return out
}

// settings returns the scalars and lists of scalars of a JSON object and of the object named within in it, except the names in own. A list
// becomes one value with commas. Null and empty values are left out.
func settings(object []byte, within string, own ...string) (map[string]string, error) {
	var all, more map[string]json.RawMessage
	if err := json.Unmarshal(object, &all); err != nil {
		return nil, err
	}
	if raw, ok := all[within]; ok {
		if err := json.Unmarshal(raw, &more); err != nil {
			return nil, fmt.Errorf("%s: %w", within, err)
		}
	}
	maps.Copy(all, more)
	out := map[string]string{}
	for name, raw := range all {
		var one text
		var list []text
		switch {
		case slices.Contains(own, name):
		case one.UnmarshalJSON(raw) == nil && one != "":
			out[name] = string(one)
		case json.Unmarshal(raw, &list) == nil && len(list) > 0:
			out[name] = strings.Join(strs(list), ",")
		}
	}
	return out, nil
}
