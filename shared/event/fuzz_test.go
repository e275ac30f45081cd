package event

import (
	"errors"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/say"
)

// A truncated input is an error; a decoded one can be written and read again.
func FuzzDecodeJSON(f *testing.F) {
	e, err := NewRecord(Record{
		Origin: Origin{
			Case: "22222222-20260102T150405", Cluster: "c1", Class: "tag-missing", Event: "a.1.2",
			Service: Service{Namespace: "shop", Name: "web", UID: "22222222-2222-2222-2222-222222222222"},
		},
		Run:  Run{Phase: Settled, Result: Fixed, At: time.Unix(1_700_000_000, 0), Who: "worker"},
		Plan: Plan{Steps: []StepRecord{{Kind: "resync", Text: say.Literal("trigger a resync"), Step: []byte(`{}`)}}},
	})
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range []func() ([]byte, error){
		func() ([]byte, error) { return EncodeJSON(e) },
		func() ([]byte, error) { return EncodeJSON(mustFailed(f, failure())) },
	} {
		text, err := e()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
		for i := 0; i < len(text); i += 31 {
			if _, err := DecodeJSON(text[:i]); err == nil {
				f.Errorf("%q, which breaks off, is read as an event", text[:i])
			}
			f.Add(text[:i])
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		e, err := DecodeJSON(text)
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("got %v, not an ErrInvalid", err)
			}
			return
		}
		if r, err := ReadRecord(e); err == nil {
			again, err := NewRecord(r)
			switch {
			case errors.Is(err, ErrTooLarge):
			case err != nil:
				t.Errorf("a record that was read can't be written: %v", err)
			default:
				if _, err := ReadRecord(again); err != nil {
					t.Errorf("a record that was written can't be read: %v", err)
				}
			}
		} else if !errors.Is(err, ErrInvalid) {
			t.Errorf("got %v, not an ErrInvalid", err)
		}
		if _, err := ReadFailed(e); err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("got %v, not an ErrInvalid", err)
		}
	})
}
