package hand_test

import (
	"bytes"
	"compress/gzip"
	"testing"

	"github.com/lbremedy/lbremedy/shared/hand"
)

func FuzzReadSnapshot(f *testing.F) {
	for _, s := range []string{`{"case":"c","balancers":[{"id":"lb-1","clb":{"ID":"lb-1"}}]}`, `{"case":"c","balancers":[{`, "null", "", "\x1f\x8b\x08"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := hand.ReadSnapshot(data); err == nil && len(data) == 0 {
			t.Error("nothing is read as a snapshot")
		}
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		if _, err := z.Write(data); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		_, _ = hand.ReadSnapshot(packed.Bytes())
		if n := packed.Len(); n > 20 {
			if _, err := hand.ReadSnapshot(packed.Bytes()[:n-10]); err == nil {
				t.Error("what breaks off is read as a snapshot")
			}
		}
	})
}
