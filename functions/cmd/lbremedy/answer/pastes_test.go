package answer_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/lbremedy/lbremedy/test/operator"
)

var update = flag.Bool("update", false, "write what is said of the pastes anew")

// Pastes of people: for each text that is not ignored, its class or check and its Service, and the closing lines.
func TestPastes(t *testing.T) {
	t.Parallel()
	const file = "testdata/pastes.txtar"
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(a.Files); i += 2 {
		text, want := a.Files[i], &a.Files[i+1]
		call := operator.Call{In: string(text.Data), Env: operator.Home(t)}
		var b strings.Builder
		for line := range strings.Lines(call.Run(t.Context(), "classify", "-o", "json").Out) {
			var said struct{ Class, Check, Service string }
			if err := json.Unmarshal([]byte(line), &said); err != nil {
				t.Fatal(err)
			}
			if said.Class != "ignored" || said.Check != "" {
				fmt.Fprintf(&b, "%s %s\n", cmp.Or(said.Check, said.Class), cmp.Or(said.Service, "-"))
			}
		}
		b.WriteString(call.Run(t.Context(), "classify").Err)
		if got := b.String(); *update {
			want.Data = []byte(got)
		} else if got != string(want.Data) {
			t.Errorf("%s:\ngot  %s\nwant %s", text.Name, got, want.Data)
		}
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(a), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
