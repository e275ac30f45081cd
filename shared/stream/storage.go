package stream

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A Storage says what NATS stores for lbremedy and whether missing streams fit.
type Storage struct {
	Fills   []Fill    // of the existing streams
	Missing []string  // names of the missing streams
	Needs   int64     // bytes that the missing streams may grow to
	Free    int64     // bytes that the account may still reserve; -1: unlimited
	Date    time.Time // by the server's clock; zero: unknown, since no stream exists
}

// Storage returns the state of the streams and the limits of the account. ErrDenied: the user may not look.
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

func (s *Stream) info(ctx context.Context, name string, filters ...string) (info *jetstream.StreamInfo, err error) {
	err = s.call(ctx, "look at stream "+name, "$JS.API.STREAM.INFO", func(in context.Context) error {
		found, err := s.js.Stream(in, name)
		if errors.Is(err, nats.ErrNoResponders) { // JetStream as a whole doesn't answer
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
