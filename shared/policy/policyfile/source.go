package policyfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/singleflight"

	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/policy"
)

// Key is the one key of a policy's ConfigMap.
const Key = "policy.yaml"

// longest is the longest policy: commands get it in one NATS message.
const longest = 256 << 10

// A Parser reads the text of a policy.
type Parser func([]byte) (policy.Version, error)

// A Source is the place of a policy. After a failed read, no older policy is used.
type Source struct {
	Name string // for people: the file, or the ConfigMap with its namespace

	read    func(context.Context) ([]byte, error)
	parse   Parser
	prefix  string // of errors
	changed chan struct{}

	next singleflight.Group // the read that has not begun yet

	turn sync.Mutex     // of the read in progress; it guards the result of the previous one
	last policy.Version // empty after an error
	err  error
}

// FromFile returns a source that reads a file.
func FromFile(path string, parse Parser) *Source {
	return &Source{Name: path, prefix: "policy file " + path, parse: parse, changed: make(chan struct{}, 1),
		read: func(context.Context) ([]byte, error) { return readFile(path) }}
}

// readFile does not wait for a pipe.
func readFile(path string) ([]byte, error) {
	var data []byte
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err == nil {
		data, err = policy.ReadFile(path, longest)
	}
	if of := (*fs.PathError)(nil); errors.As(err, &of) {
		err = of.Err // the caller adds the path
	}
	return data, err
}

// FromConfigMap returns a source that reads a ConfigMap from the API server each time.
func FromConfigMap(c *kube.Cluster, namespace, name string, parse Parser) *Source {
	of := "ConfigMap " + namespace + "/" + name
	return &Source{Name: of, prefix: of, parse: parse, changed: make(chan struct{}, 1),
		read: func(ctx context.Context) ([]byte, error) {
			m, err := c.ConfigMap(ctx, namespace, name)
			if err != nil {
				return nil, err
			}
			// With two keys, a person might edit the wrong one.
			keys := slices.Sorted(maps.Keys(m.Data))
			keys = slices.Concat(keys, slices.Sorted(maps.Keys(m.BinaryData)))
			text, ok := m.Data[Key]
			switch {
			case len(keys) == 0:
				return nil, fmt.Errorf("it is empty: put the policy under the key %s", Key)
			case !ok || len(keys) > 1:
				return nil, fmt.Errorf("its keys are %s: the policy must be under %s, and nothing else in it", strings.Join(keys, ", "), Key)
			}
			return []byte(text), nil
		}}
}

// FromNothing returns the source without a policy: it says observe.
func FromNothing(parse Parser) *Source {
	return &Source{Name: "no policy file", prefix: "no policy file", parse: parse, changed: make(chan struct{}, 1),
		read: func(context.Context) ([]byte, error) { return []byte("mode: observe\n"), nil }}
}

// Read returns what the source holds after the call began: calls during a read share the next one, so a thousand concurrent runs take few requests.
func (s *Source) Read(ctx context.Context) (policy.Version, error) {
	answer := s.next.DoChan("", func() (any, error) { return s.take(context.WithoutCancel(ctx)) })
	select {
	case a := <-answer:
		return a.Val.(policy.Version), a.Err
	case <-ctx.Done():
		return policy.Version{}, fmt.Errorf("%s: %w", s.prefix, ctx.Err())
	}
}

// Changed returns a channel that receives when a read differs from the previous one.
func (s *Source) Changed() <-chan struct{} { return s.changed }

func (s *Source) take(ctx context.Context) (policy.Version, error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.next.Forget("") // later callers must not share it
	v, err := s.parsed(s.read(ctx))
	if said(err) != said(s.err) || v.Digest != s.last.Digest {
		select {
		case s.changed <- struct{}{}:
		default:
		}
	}
	s.last, s.err = v, err
	return v, err
}

// parsed returns the last result if the text is unchanged.
func (s *Source) parsed(text []byte, err error) (policy.Version, error) {
	if err == nil && len(text) > longest {
		err = fmt.Errorf("it is longer than %d KiB", longest>>10)
	}
	if err == nil && s.err == nil && s.last.Digest == Digest(text) {
		return s.last, nil
	}
	var v policy.Version
	if err == nil {
		v, err = s.parse(text)
	}
	if err != nil {
		return policy.Version{}, prefixed{s.prefix + ": ", err}
	}
	return v, nil
}

type prefixed struct {
	prefix string
	error
}

func (p prefixed) Error() string {
	return p.prefix + strings.ReplaceAll(p.error.Error(), "\n", "\n"+p.prefix)
}

func (p prefixed) Unwrap() error { return p.error }

func said(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
