package say_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/say"
)

type word string

func TestText(t *testing.T) {
	for _, c := range []struct {
		text say.Text
		want string
	}{
		{nil, ""},
		{say.Literal(""), ""},
		{say.Literal("100%d"), "100%d"},
		{say.F("The vSwitch %s has %d addresses.", word("vsw-1"), 3), "The vSwitch vsw-1 has 3 addresses."},
		{say.F("%.1f of %.0f, %t, %v, %q", 1.5, 2.0, true, time.Second, "a"), `1.5 of 2, true, 1s, "a"`},
		{say.F("It failed: %v.", errors.New("no route")), "It failed: no route."},
		{say.F("One.").And("Two of %s.", say.F("%d nodes", 2)).Then(say.Literal("Three.")), "One. Two of 2 nodes. Three."},
		{say.F("[%s] [%s]", say.List(nil, 3), say.Clauses(nil, 3)), "[] []"},
		{say.F("%[2]s before %[1]s, %[3]d%%", "a", "b", uint64(7)), "b before a, 7%"},
	} {
		if got := c.text.String(); got != c.want {
			t.Errorf("it prints %q, not %q", got, c.want)
		}
		data, err := json.Marshal(c.text)
		if err != nil {
			t.Fatal(err)
		}
		var back say.Text
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		if !reflect.DeepEqual(back, c.text) {
			t.Errorf("%s comes back as %#v, not as %#v", data, back, c.text)
		}
	}
}

func TestThen(t *testing.T) {
	base := append(make(say.Text, 0, 4), say.F("A.")...)
	one, two := base.And("B."), base.And("C.")
	if base.String() != "A." || one.String() != "A. B." || two.String() != "A. C." {
		t.Errorf("%q, %q, %q", base, one, two)
	}
}

func TestMap(t *testing.T) {
	redact := func(s string) string {
		return strings.ReplaceAll(strings.ReplaceAll(s, "hunter2", "…"), "Signature=abc", "Signature=…")
	}
	for _, c := range []struct {
		text say.Text
		want say.Text
	}{
		{say.F("Key %s, %s, %d.", "hunter2", say.F("a %s", "hunter2"), 1), say.F("Key %s, %s, %d.", "…", say.F("a %s", "…"), 1)},
		{say.F("Signature=%s is wrong.", "abc"), say.Literal("Signature=… is wrong.")},
		{nil, nil},
	} {
		if got := c.text.Map(redact); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%#v becomes %#v, not %#v", c.text, got, c.want)
		}
	}
}

func TestHostile(t *testing.T) {
	for _, data := range []string{
		`{}`, `true`, `[1]`, `[{"format":1}]`, `[{"format":"%s","args":{}}]`, `[{"format":"%s","args":[{}]}]`, `[{"format":"%s","args":[null]}]`,
		`[{"format":"%0999999d","args":[1]}]`, `[{"format":"%*d","args":[999999,1]}]`,
		strings.Repeat(`[{"format":"%s","args":[`, 20) + `"a"` + strings.Repeat(`]}]`, 20),
	} {
		var text say.Text
		if err := json.Unmarshal([]byte(data), &text); err == nil {
			t.Errorf("%s is read as %#v", data, text)
		}
	}
	var text say.Text
	if err := json.Unmarshal([]byte(`[{"format":"%s and %d","args":["a"]},{"format":"%d","args":["b"]}]`), &text); err != nil ||
		!strings.HasPrefix(text.String(), "a and %!") {
		t.Errorf("a format without its arguments: %q, %v", text, err)
	}
}

func TestJSON(t *testing.T) {
	for _, tt := range []struct {
		text say.Text
		want string
	}{
		{nil, "null"},
		{say.Literal("vsw-1"), `"vsw-1"`},
		{say.F("%d", 3), `[{"format":"%d","args":[3]}]`},
		{say.F("%s is full.", say.Literal("vsw-1")), `[{"format":"%s is full.","args":[[{"format":"%s","args":["vsw-1"]}]]}]`},
		{say.Literal("a").Then(say.Literal("b")), `[{"format":"%s","args":["a"]},{"format":"%s","args":["b"]}]`},
	} {
		data, err := json.Marshal(tt.text)
		if err != nil || string(data) != tt.want {
			t.Errorf("%q becomes %s, %v, not %s", tt.text, data, err, tt.want)
		}
		var back say.Text
		if err := json.Unmarshal(data, &back); err != nil {
			t.Error(err)
		}
		if !reflect.DeepEqual(tt.text, back) {
			t.Errorf("%s comes back as %#v", data, back)
		}
	}
	for _, bad := range []string{"3", "{}", "[3]", `["a"]`, "true"} {
		var back say.Text
		if err := json.Unmarshal([]byte(bad), &back); err == nil {
			t.Errorf("%s is read as %q", bad, back)
		}
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		time.Minute: "1m", 2 * time.Hour: "2h", 90 * time.Minute: "1h30m", 90 * time.Second: "1m30s", 10 * time.Second: "10s", 0: "0s", -5 * time.Minute: "-5m",
		30 * time.Hour: "30h", time.Hour + 10*time.Minute: "1h10m", time.Hour + 5*time.Second: "1h0m5s", 1500 * time.Millisecond: "1.5s",
	} {
		if got := say.F("%s", d).String(); got != want {
			t.Errorf("%s is %q, want %q", d, got, want)
		}
		if got := say.Errorf("after %s", d).Error(); got != "after "+want {
			t.Errorf("the error says %q", got)
		}
	}
}
