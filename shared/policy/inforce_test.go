package policy

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/shared/stream"
	"github.com/lbremedy/lbremedy/test/nats"
)

func TestInForce(t *testing.T) {
	s := nats.Streams(t)
	check := func(cluster string, want InForce) {
		t.Helper()
		got, err := Get(t.Context(), s, cluster)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got\n%s", cluster, diff)
		}
	}
	check("c1", InForce{})
	at := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for _, f := range []InForce{
		{Version: "0123456789ab", Text: "mode: fix\n# <why>\n", Source: "ConfigMap lbremedy/lbremedy-policy", Since: at},
		{Wrong: "policy file p.yaml: it is empty", Source: "p.yaml", Since: at},
		{Version: "a", Text: strings.Repeat("#<\"\u2028\n", 256<<10/7), Source: "p.yaml", Since: at},
	} {
		if err := f.Put(t.Context(), s, "c1"); err != nil {
			t.Fatal(err)
		}
		check("c1", f)
		check("c2", InForce{})
	}
	for _, garbage := range []string{"", "{", "[]", `{"version":1}`, `{"since":"today"}`} {
		if err := s.Put(t.Context(), key+"c1", []byte(garbage)); err != nil {
			t.Fatal(err)
		}
		if got, err := Get(t.Context(), s, "c1"); err == nil || !reflect.DeepEqual(got, InForce{}) {
			t.Errorf("%q is %+v, %v", garbage, got, err)
		}
	}
	s.Close()
	if _, err := Get(t.Context(), s, "c1"); !errors.Is(err, stream.ErrUnavailable) {
		t.Errorf("without NATS: %v", err)
	}
	if err := (InForce{}).Put(t.Context(), s, "c1"); !errors.Is(err, stream.ErrUnavailable) {
		t.Errorf("without NATS: %v", err)
	}
}
