package say_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/lbremedy/lbremedy/shared/say"
)

// Foreign text between errors stays unchanged. As errors they equal those of fmt.Errorf.
func TestErrorf(t *testing.T) {
	other := &say.Language{Tag: "x", Twins: map[string]string{"read %s: %w": "%[2]w (R %[1]s)", "%d bad": "B%d", "100%% of %s": "%s=100%%"}}
	bad := say.Errorf("%d bad", 3)
	for _, c := range []struct {
		err  error
		want string
	}{
		{say.Errorf("read %s: %w", "a", io.EOF), "EOF (R a)"},
		{say.Errorf("read %s: %w", say.F("%d bad", 1), bad), "B3 (R B1)"},
		{say.Errorf("100%% of %s", "w"), "w=100%"},
		{fmt.Errorf("do it: %w, and then %w", bad, io.EOF), "do it: B3, and then EOF"},
		{errors.Join(io.EOF, bad), "EOF\nB3"},
		{struct{ error }{bad}, "3 bad"},
		{io.EOF, "EOF"},
	} {
		text := say.Of(c.err)
		if got := text.In(other); got != c.want {
			t.Errorf("%v is told as %q, not %q", c.err, got, c.want)
		}
		if text.String() != c.err.Error() {
			t.Errorf("%v is %q in English", c.err, text)
		}
		data, err := json.Marshal(text)
		var back say.Text
		if err := errors.Join(err, json.Unmarshal(data, &back)); err != nil || back.In(other) != c.want {
			t.Errorf("%s comes back as %q: %v", data, back.In(other), err)
		}
	}
	if err := say.Errorf("read %s: %w", "a", io.EOF); !errors.Is(err, io.EOF) {
		t.Errorf("%v is no longer io.EOF", err)
	}
}
