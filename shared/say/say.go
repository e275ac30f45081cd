// Package say keeps texts for people as data: a format and its arguments. Begin with F.
//
// A plan, a record and a finding of the doctor hold a [Text], which is rendered where it is shown, in any language. The English format
// identifies the message: a catalogue maps it to a format of another language with the same verbs. Programs that only write records
// need no catalogue.
package say

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/regex"
)

// A Text is a sequence of messages. Its zero value is empty and prints nothing.
type Text []Message

// A Message is a format with its arguments.
type Message struct {
	Format string `json:"format"` // English, with verbs of package fmt
	// Args are of the types that survive JSON: string, bool, int64, float64 or Text.
	Args []any `json:"args,omitempty"`
}

// F returns a text of one message. Arguments that are Texts, or have a method Word that returns one, are translated; others, except
// numbers and booleans, become strings.
func F(format string, args ...any) Text {
	if false {
		_ = fmt.Sprintf(format, args...) // makes vet check the verbs in calls of F
	}
	m := Message{Format: format}
	for _, a := range args {
		m.Args = append(m.Args, plain(a))
	}
	return Text{m}
}

// Literal returns a text that is the same in every language, such as an ID or a foreign message; an empty one for "".
func Literal(s string) Text {
	if s == "" {
		return nil
	}
	return Text{{Format: "%s", Args: []any{s}}}
}

// And returns the text followed by a message.
func (t Text) And(format string, args ...any) Text { return t.Then(F(format, args...)) }

// Then returns the text followed by another. Neither changes.
func (t Text) Then(next Text) Text {
	return append(t[:len(t):len(t)], next...)
}

// String returns the text in English, messages separated by spaces.
func (t Text) String() string {
	var b strings.Builder
	for i, m := range t {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(sprint(m.Format, m.Args...))
	}
	return b.String()
}

// Map returns the text with f applied to all arguments. If f would still change the English text, as for a secret that the format
// announces, the result is a Literal of f applied to that.
func (t Text) Map(f func(string) string) Text {
	out := t.mapArgs(f)
	if whole := out.String(); f(whole) != whole {
		return Literal(f(whole))
	}
	return out
}

func (t Text) mapArgs(f func(string) string) Text {
	var out Text
	for _, m := range t {
		n := Message{Format: m.Format}
		for _, a := range m.Args {
			switch a := a.(type) {
			case string:
				n.Args = append(n.Args, f(a))
			case Text:
				n.Args = append(n.Args, a.mapArgs(f))
			default:
				n.Args = append(n.Args, a)
			}
		}
		out = append(out, n)
	}
	return out
}

func plain(a any) any {
	switch a := a.(type) {
	case Text:
		if len(a) == 0 {
			return "" // JSON has no empty list of messages
		}
		return a
	case interface{ Word() Text }:
		return a.Word()
	case time.Duration:
		return span(a)
	case error, fmt.Stringer:
		return fmt.Sprint(a)
	}
	switch v := reflect.ValueOf(a); v.Kind() {
	case reflect.String:
		return v.String()
	case reflect.Bool:
		return v.Bool()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return v.Int()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if n := v.Uint(); n <= math.MaxInt64 {
			return int64(n)
		}
	case reflect.Float32, reflect.Float64:
		return v.Float()
	}
	return fmt.Sprint(a)
}

// span formats a duration as people do: 1m and 2h, not 1m0s and 2h0m0s.
func span(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// MarshalJSON writes a text that is the same in every language as a string, others as a list of messages.
func (t Text) MarshalJSON() ([]byte, error) {
	if len(t) == 1 && t[0].Format == "%s" && len(t[0].Args) == 1 {
		if s, ok := t[0].Args[0].(string); ok {
			return json.Marshal(s)
		}
	}
	return json.Marshal([]Message(t))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (t *Text) UnmarshalJSON(data []byte) error {
	if data[0] != '"' {
		return json.Unmarshal(data, (*[]Message)(t))
	}
	var s string
	err := json.Unmarshal(data, &s)
	*t = Literal(s)
	return err
}

type wire struct {
	Format string `json:"format"`
	Args   []any  `json:"args,omitempty"`
}

// real always has a point or an exponent in JSON.
type real float64

func (r real) MarshalJSON() ([]byte, error) {
	data, err := json.Marshal(float64(r))
	if err == nil && !bytes.ContainsAny(data, ".e") {
		data = append(data, ".0"...)
	}
	return data, err
}

// MarshalJSON writes {"format": …, "args": […]}. An argument that is a text is a list of messages.
func (m Message) MarshalJSON() ([]byte, error) {
	w := wire{Format: m.Format}
	for _, a := range m.Args {
		switch v := a.(type) {
		case float64:
			a = real(v)
		case Text:
			a = []Message(v)
		}
		w.Args = append(w.Args, a)
	}
	return json.Marshal(w)
}

// deepest is how deeply texts may nest, and widest how long a verb may be: a record may come from an attacker.
const deepest = 8

var widest = regex.New(`%[^a-zA-Z%]{6}|%[^a-zA-Z%]*\*`)

// UnmarshalJSON reads what MarshalJSON writes, except formats that could print huge texts and texts that nest too deeply.
func (m *Message) UnmarshalJSON(data []byte) error { return m.read(data, deepest) }

func (m *Message) read(data []byte, depth int) error {
	var w struct {
		Format string            `json:"format"`
		Args   []json.RawMessage `json:"args"`
	}
	if depth == 0 {
		return fmt.Errorf("a text is nested more than %d deep", deepest)
	}
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	if bad := widest().FindString(w.Format); bad != "" {
		return fmt.Errorf("the format of a message has the verb %q", bad)
	}
	*m = Message{Format: w.Format}
	for i, raw := range w.Args {
		a, err := readArg(raw, depth)
		if err != nil {
			return fmt.Errorf("argument %d of a message: %w", i+1, err)
		}
		m.Args = append(m.Args, a)
	}
	return nil
}

func readArg(raw json.RawMessage, depth int) (any, error) {
	if raw[0] == '[' {
		var list []json.RawMessage
		if err := json.Unmarshal(raw, &list); err != nil {
			return nil, err
		}
		t := make(Text, len(list))
		for i, one := range list {
			if err := t[i].read(one, depth-1); err != nil {
				return nil, err
			}
		}
		return t, nil
	}
	// A generic decoder would be too slow for a thousand records.
	switch c := raw[0]; {
	case c == '"':
		var v string
		err := json.Unmarshal(raw, &v)
		return v, err
	case c == 't' || c == 'f':
		return c == 't', nil
	case c == '-' || c >= '0' && c <= '9':
		if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
			return n, nil
		}
		return strconv.ParseFloat(string(raw), 64)
	}
	return nil, errors.New("it is not a string, number, boolean or list of messages")
}
