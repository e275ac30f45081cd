package stream

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/shared/event"
)

func TestDepth(t *testing.T) {
	s := fresh(t, "busy", "quota")
	ctx, cancel := context.WithCancel(t.Context())
	for _, uid := range []string{"u1", "u2", "u3"} {
		if _, _, err := s.PublishNewer(ctx, event.FailedSubject("c1", "busy", uid), uid, nil, []byte("x"), func(Message) bool { return true }); err != nil {
			t.Fatal(err)
		}
	}
	depth := func(want ...Queue) {
		t.Helper()
		eventually(t, fmt.Sprint(want), func() bool {
			got, err := s.Queues(t.Context(), "c1")
			if err != nil {
				t.Fatal(err)
			}
			return cmp.Equal(want, got)
		})
	}
	depth(Queue{Class: "busy", Undelivered: 3}, Queue{Class: "quota"})

	inHand, ended := make(chan bool), make(chan error, 1)
	go func() {
		ended <- s.Consume(ctx, "c1", "busy", 1, func(context.Context, Message) Reply {
			inHand <- true
			<-ctx.Done()
			return Reply{}
		})
	}()
	<-inHand
	got, err := s.Queues(t.Context(), "c1")
	if err != nil || got[0].InHand == 0 || got[0].InHand+got[0].Undelivered != 3 {
		t.Errorf("with one in hand: %+v, %v", got, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}

	fills, err := s.Fills(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []Fill{{Failed, 3, 1, 256 << 20}, {Cases, 0, 0, 1 << 30}, {Dead, 0, 0, 128 << 20}, {bucketStream, 0, 0, 512 << 20}} {
		if got := fills[i]; got.Stream != want.Stream || got.Messages != want.Messages || got.Bytes < want.Bytes || got.Limit != want.Limit {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}

	if err := s.js.DeleteStream(t.Context(), Failed); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Queues(t.Context(), "c1"); !errors.Is(err, ErrNotFound) {
		t.Errorf("queues without the stream: %v, %v", got, err)
	}
	if got, err := s.Fills(t.Context()); !errors.Is(err, ErrNotFound) {
		t.Errorf("fills without the stream: %v, %v", got, err)
	}
}
