package ticket

import (
	"testing"

	"github.com/lbremedy/lbremedy/shared/stream"
)

// FuzzKeys reads arbitrary entries of the bucket. A readable one has the key that it was read from.
func FuzzKeys(f *testing.F) {
	f.Add("incident.service.tag-missing.0123456789abcdef.22222222-2222-2222-2222-222222222222", []byte(`{"sequence":7}`))
	f.Add("ticket.ops.service.tag-missing.0123456789abcdef", []byte(`{"id":"t-1","status":"open"}`))
	f.Add("ticket.ops.service.tag-missing.0123456789abcdef.22222222-2222-2222-2222-222222222222", []byte(`{"told":"yesterday"}`))
	f.Add("ticket.....", []byte(`null`))
	f.Add("incident", []byte(`[`))
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		if i, m, err := readMember(key, value, 1); err == nil && len(key) > len(memberRoot) && key[:len(memberRoot)] == memberRoot && i.member(m.uid) != key {
			t.Errorf("member %q comes back as %q", key, i.member(m.uid))
		}
		h, err := decodeHead(stream.Entry{Key: key, Value: value})
		if err != nil {
			return
		}
		if h.uid != "" && headKey(h.sink, h.incident, h.uid) != key {
			t.Errorf("%q comes back as %q", key, headKey(h.sink, h.incident, h.uid))
		}
	})
}
