package ccm_test

import (
	"encoding/json"
	"testing"

	"github.com/lbremedy/lbremedy/shared/ccm"

	"github.com/google/go-cmp/cmp"
)

// FuzzWithActions adds a statement to any policy, which otherwise stays as it was.
func FuzzWithActions(f *testing.F) {
	for _, s := range []string{
		`{"Version":"1","Statement":[{"Effect":"Allow","Action":"slb:*","Resource":"*"}]}`,
		`{"Statement":[]}`, `{"Statement":{}}`, `null`, `[]`, `{"Statement":null,"statement":[1]}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, document string) {
		out, err := ccm.WithActions(document, []string{"nlb:ListAsynJobs"})
		if err != nil {
			return
		}
		read := func(text string) (doc map[string]any, statements []any) {
			t.Helper()
			if err := json.Unmarshal([]byte(text), &doc); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			statements, _ = doc["Statement"].([]any)
			delete(doc, "Statement")
			return doc, statements
		}
		was, had := read(document)
		is, has := read(out)
		if diff := cmp.Diff(was, is); diff != "" {
			t.Errorf("%q: %s", document, diff)
		}
		if len(has) != len(had)+1 || !cmp.Equal(has[:len(had)], had) && len(had) > 0 {
			t.Errorf("%q: the statements are %v", document, has)
		}
	})
}
