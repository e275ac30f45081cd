package stream

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/lbremedy/lbremedy/shared/stream/embedded"
)

func TestStorage(t *testing.T) {
	s := connect(t, Config{URL: serve(t, embedded.Options{}).URL()})
	r, err := s.Storage(t.Context())
	if err != nil || !slices.Equal(r.Missing, []string{Failed, Cases, Dead, bucketStream}) || r.Needs != 256<<20+1<<30+128<<20+512<<20 || r.Free != -1 ||
		len(r.Fills) > 0 || !r.Date.IsZero() {
		t.Errorf("before the setup: %+v, %v", r, err)
	}
	setup(t, s)
	r, err = s.Storage(t.Context())
	if err != nil || len(r.Missing) > 0 || r.Needs != 0 || len(r.Fills) != 4 || time.Since(r.Date).Abs() > time.Minute {
		t.Errorf("after the setup: %+v, %v", r, err)
	}
	user := &server.User{Username: "looker", Password: "p", Permissions: &server.Permissions{
		Publish: &server.SubjectPermission{Allow: []string{"$JS.API.STREAM.INFO.*"}},
	}}
	at := serverOf(t, &server.Options{JetStream: true, StoreDir: t.TempDir(), Users: []*server.User{user}})
	few := connect(t, Config{URL: strings.Replace(at, "nats://", "nats://looker:p@", 1)})
	if r, err := few.Storage(t.Context()); !errors.Is(err, ErrDenied) {
		t.Errorf("of a user who may not look: %+v, %v", r, err)
	}
	if r, err := connect(t, Config{URL: plainServer(t)}).Storage(t.Context()); !errors.Is(err, ErrUnavailable) {
		t.Errorf("without JetStream: %+v, %v", r, err)
	}
}
