package doctor_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/test/operator"
)

var update = flag.Bool("update", false, "write what is said of the manifests anew")

func TestManifests(t *testing.T) {
	t.Parallel()
	const file = "testdata/manifests.txtar"
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(a.Files); i += 2 {
		manifest, want := a.Files[i], &a.Files[i+1]
		got := operator.Call{In: string(manifest.Data), Env: operator.Home(t)}.Run(t.Context(), "doctor", "-f", "-", "-o", "json")
		said := got.Err
		if got.Out != "" {
			var r doctor.Result
			if err := json.Unmarshal([]byte(got.Out), &r); err != nil {
				t.Fatal(err)
			}
			var lines []string
			for _, f := range r.Findings {
				lines = append(lines, fmt.Sprintf("%d %s %s %s\n", f.Line, f.Severity, f.Check, f.Key))
			}
			slices.Sort(lines)
			said = strings.Join(lines, "")
		}
		if *update {
			want.Data = []byte(said)
		} else if diff := cmp.Diff(string(want.Data), said); diff != "" {
			t.Errorf("%s:\n%s", manifest.Name, diff)
		}
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(a), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
