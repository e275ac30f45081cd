package mcp_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/mcp"
	"github.com/lbremedy/lbremedy/test/operator"
)

// An answer has the notes that a command prints beside its data.
func TestNotes(t *testing.T) {
	c, s := operator.Embed(t)
	if err := operator.Seed(t.Context(), s, operator.Lately()...); err != nil {
		t.Fatal(err)
	}
	p := c.Program(io.Discard, io.Discard)
	p.State = c.Env["LBREMEDY_STATE_DIR"]
	notes := func() []string {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", strings.NewReader(
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_cases","arguments":{}}}`))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		w := httptest.NewRecorder()
		mcp.Handler(p).ServeHTTP(w, r)
		var got struct {
			Result struct {
				StructuredContent struct {
					Data struct {
						Cases []any
						Notes []string
					}
				}
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || len(got.Result.StructuredContent.Data.Cases) == 0 {
			t.Fatalf("%v: %s", err, w.Body)
		}
		return got.Result.StructuredContent.Data.Notes
	}
	if got := notes(); len(got) > 0 {
		t.Errorf("of a journal that can be read: %q", got)
	}
	if _, err := s.AppendRecord(t.Context(), "c1", operator.UID(1), "tag-missing", "x", nil, []byte("no record"), 0); err != nil {
		t.Fatal(err)
	}
	if got := notes(); len(got) != 1 || !strings.Contains(got[0], "1 records of the journal can't be read") {
		t.Errorf("of one that can't: %q", got)
	}
}
