package stream

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A Storage says what NATS holds for lbremedy, and whether what is missing has room.
type Storage struct {
	Fills   []Fill    // of the streams that are there
	Missing []string  // names of the streams that are not
	Needs   int64     // bytes that these may grow to
	Free    int64     // bytes of storage that the account may still reserve; -1: it has no limit
	Date    time.Time // of the server's clock; zero: it does not say, since no stream is there
}

// Storage looks at the streams and at the limits of the account, and changes nothing. A user
// who may not look is an error of kind ErrDenied.
func (s *Stream) Storage(ctx context.Context) (Storage, error) {
	var r Storage
	for _, want := range (Settings{}).orUsual().streams() {
		info, err := s.info(ctx, want.Name)
		if errors.Is(err, ErrNotFound) {
			r.Missing = append(r.Missing, want.Name)
			r.Needs += max(0, want.MaxBytes)
			continue
		}
		if err != nil {
			return Storage{}, err
		}
		r.Fills = append(r.Fills, fillOf(info))
		r.Date = info.TimeStamp
	}
	err := s.call(ctx, "look at the limits of JetStream", "$JS.API.INFO", func(in context.Context) error {
		account, err := s.js.AccountInfo(in)
		if err != nil {
			return err
		}
		if r.Free = -1; account.Limits.MaxStore >= 0 {
			r.Free = account.Limits.MaxStore - int64(max(account.Store, account.ReservedStore))
		}
		return nil
	})
	return r, err
}

// info returns what the server says of a stream, and of its subjects that match a filter.
func (s *Stream) info(ctx context.Context, name string, filters ...string) (info *jetstream.StreamInfo, err error) {
	err = s.call(ctx, "look at stream "+name, "$JS.API.STREAM.INFO", func(in context.Context) error {
		found, err := s.js.Stream(in, name)
		if errors.Is(err, nats.ErrNoResponders) { // JetStream itself doesn't answer, whichever stream is meant
			err = jetstream.ErrJetStreamNotEnabled
		}
		if err != nil {
			return err
		}
		info = found.CachedInfo()
		for _, f := range filters {
			info, err = found.Info(in, jetstream.WithSubjectFilter(f))
		}
		return err
	})
	return info, err
}
