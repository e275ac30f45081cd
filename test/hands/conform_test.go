package hands

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/hands"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/root"
	"github.com/lbremedy/lbremedy/shared/hand"
)

func (w *world) conforms(address, cases string) (code int, wrong []string, said string) {
	w.Helper()
	key := filepath.Join(w.TempDir(), "engine.pem")
	if err := os.WriteFile(key, w.key.PEM(), 0o600); err != nil {
		w.Fatal(err)
	}
	p := cli.New("dev")
	var out, errs bytes.Buffer
	p.Out, p.Err = &out, &errs
	code = root.Run(w.Context(), p, []string{"hand", "test", address, "--cluster=" + clusterID, "--class=" + sample + "/class.yaml", "--engine-key=" + key,
		"--cases=" + cases, "-o", "json"})
	var all []hands.Checked
	if err := json.Unmarshal(out.Bytes(), &all); code != 2 && (err != nil || len(all) < 16) {
		w.Fatalf("%d checks, %v\n%s%s", len(all), err, out.String(), errs.String())
	}
	for _, c := range all {
		if c.Error != "" {
			wrong = append(wrong, c.Check)
		}
	}
	return code, wrong, out.String() + errs.String()
}

// Hands that keep the contract pass without being asked to write. The hand of another class or cluster does not pass.
func TestConforms(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		code, wrong, said := w.conforms(w.url, sample+"/cases.yaml")
		if code != 0 || len(wrong) > 0 || w.writes.Load() != 0 {
			t.Errorf("code %d, %d writes\n%s", code, w.writes.Load(), said)
		}
		other := filepath.Join(t.TempDir(), "cases.json")
		text := `[{"name":"wrong","service":{"metadata":{"namespace":"shop","name":"web"}},"want":{"verdict":"no"}}]`
		if err := os.WriteFile(other, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if code, wrong, said := w.conforms(w.url, other); code != 1 || !slices.Equal(wrong, []string{"It finds out what is recorded: wrong."}) {
			t.Errorf("code %d\n%s", code, said)
		}
	})
}

// A hand that breaks one rule of the contract fails that check, and no other.
func TestBreaks(t *testing.T) {
	w := &world{TB: t, class: declared(t)}
	var err error
	if w.key, err = hand.NewKey(); err != nil {
		t.Fatal(err)
	}
	startPython(t, w, "http://127.0.0.1:1")
	good := func(call []byte) []byte {
		_, answer, err := w.send(t.Context(), call)
		if err != nil {
			t.Error(err)
		}
		return answer
	}
	about := func(call []byte) (e struct {
		ID, Type, Source, Subject string
		Data                      struct {
			For     string
			Attempt int
			Failure struct{ Service struct{ UID string } }
		}
	}) {
		if parts := strings.Split(string(call), "."); len(parts) == 3 {
			text, _ := base64.RawURLEncoding.DecodeString(parts[1])
			_ = json.Unmarshal(text, &e)
		}
		return e
	}
	accepts := func(call []byte, answer string) []byte {
		e := about(call)
		text, err := json.Marshal(map[string]any{"id": e.ID, "cluster": e.Source, "class": e.Subject, "uid": e.Data.Failure.Service.UID,
			"attempt": e.Data.Attempt, "answer": json.RawMessage(answer)})
		if err != nil {
			t.Error(err)
		}
		return text
	}
	seen := map[string]bool{}
	for name, tt := range map[string]struct {
		answer func(call []byte) []byte
		want   []string
	}{
		"it verifies no signature": {func(call []byte) []byte {
			said := good(call)
			if bytes.Contains(said, []byte("the signature of the call")) {
				return accepts(call, "{}")
			}
			return said
		}, []string{"It refuses a call whose signature is missing.", "It refuses a call with the signature of another key.",
			"It refuses a call of a key that it does not know.",
			"It refuses a call whose content is that of another call.", "It refuses a call with the algorithm none."}},
		"it keeps no call": {func(call []byte) []byte {
			said := good(call)
			if bytes.Contains(said, []byte("this call came before")) {
				return accepts(call, "{}")
			}
			return said
		}, []string{"It refuses a call that came before.", "It leaves open what became of an order that came before."}},
		"it has no clock": {func(call []byte) []byte {
			said := good(call)
			if bytes.Contains(said, []byte("the call has expired")) {
				return accepts(call, "{}")
			}
			return said
		}, []string{"It refuses a call that has expired.", "It refuses a call that expires more than half a minute from now."}},
		"it makes any step": {func(call []byte) []byte {
			if about(call).Type == hand.TypeApply {
				return accepts(call, `{"state":"done"}`)
			}
			return good(call)
		}, []string{"It refuses a step that the class does not declare.", "It leaves open what became of an order that came before."}},
		"it refuses an order that came before": {func(call []byte) []byte {
			return bytes.ReplaceAll(good(call), []byte(`"unsure"`), []byte(`"denied"`))
		}, []string{"It leaves open what became of an order that came before."}},
		"it plans what it does not declare": {func(call []byte) []byte {
			return bytes.ReplaceAll(good(call), []byte(`"example.com/owner": "checkout"`), []byte(`"example.com/other": "yes"`))
		}, []string{"It finds out what is recorded: the label names the owner."}},
		"it writes sentences of its own": {func(call []byte) []byte {
			return bytes.ReplaceAll(good(call), []byte("The annotation %s is missing, and the label %s is %s."), []byte("Go to %s now, %s, %s."))
		}, []string{"It finds out what is recorded: the label names the owner."}},
		"it answers another call": {func(call []byte) []byte {
			said := good(call)
			if e := about(call); e.Data.For == "diagnose" {
				return bytes.ReplaceAll(said, []byte(e.ID), []byte("another"))
			}
			return said
		}, []string{"It finds out what is recorded: the label names the owner.", "It finds out what is recorded: nothing names the owner.",
			"It finds out what is recorded: the annotation is there."}},
	} {
		t.Run(name, func(t *testing.T) {
			broken := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				call, _ := io.ReadAll(r.Body)
				_, _ = rw.Write(tt.answer(call))
			}))
			defer broken.Close()
			code, wrong, said := w.conforms(broken.URL, sample+"/cases.yaml")
			if code != 1 || !slices.Equal(wrong, tt.want) {
				t.Errorf("code %d, %q\n%s", code, wrong, said)
			}
			for _, check := range wrong {
				seen[check] = true
			}
		})
	}
	if len(seen) < 9 {
		t.Errorf("only %d checks were seen to fail", len(seen))
	}
	for name, args := range map[string][]string{
		"no URL": {"hand", "test", "nowhere", "--cluster=c"}, "no cluster": {"hand", "test", "http://a"}, "no class": {"hand", "test", "http://a", "--cluster=c"},
		"no key":        {"hand", "test", "http://a", "--cluster=c", "--class=" + sample + "/class.yaml"},
		"no such class": {"hand", "test", "http://a", "--cluster=c", "--class=" + sample + "/none.yaml", "--engine-key=x"},
		"no key there":  {"hand", "test", "http://a", "--cluster=c", "--class=" + sample + "/class.yaml", "--engine-key=" + sample + "/class.yaml"},
	} {
		p := cli.New("dev")
		p.Out, p.Err = io.Discard, io.Discard
		if code := root.Run(t.Context(), p, args); code != 2 {
			t.Errorf("%s: code %d", name, code)
		}
	}
}
