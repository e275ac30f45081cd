package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/stream"
)

// A Version is a policy with its sinks, and who put it in force when.
type Version struct {
	Number int
	At     time.Time
	By     string // a person, or the program that read a policy file
	Host   string // the machine that it was put in force from
	// Identity is the user name by which the cluster knows who put it in force; empty where no cluster could be asked.
	Identity string
	Why      string
	Policy   remedy.Policy
	Sinks    []Sink
	People   []Person // whose clicks at the sinks count; the program that has the file knows them, and they are not put in force
	// Zones are the names of the freezes' time zones, in their order; empty for one that
	// happens once. The policy has their offsets alone.
	Zones []string
}

// historyKey is where the versions of each cluster lie in the stream's bucket, behind it the
// cluster's ID and the version's number.
const historyKey = "history"

// versionsKept is how many versions of a cluster's policy are kept.
const versionsKept = 100

// A versionDocument is a version as it lies in the bucket.
type versionDocument struct {
	Version  int             `json:"version"` // of the document
	Number   int             `json:"number"`
	At       time.Time       `json:"at"`
	By       string          `json:"by"`
	Host     string          `json:"host,omitempty"`
	Identity string          `json:"identity,omitempty"`
	Why      string          `json:"why,omitempty"`
	Policy   json.RawMessage `json:"policy"` // as it lies under key
	Sinks    json.RawMessage `json:"sinks"`  // as they lie under sinksKey
	Zones    []string        `json:"zones,omitempty"`
}

// PutInForce makes a policy and its sinks the ones in force in a cluster, and records the
// version unless it says the same as the newest one. It returns the number of the newest
// version. If only the record fails, the policy is in force and the error is an ErrUnrecorded.
func PutInForce(ctx context.Context, s *stream.Stream, cluster string, v Version) (int, error) {
	if err := Publish(ctx, s, cluster, v.Policy); err != nil {
		return 0, err
	}
	if err := PublishSinks(ctx, s, cluster, v.Sinks); err != nil {
		return 0, err
	}
	number, err := record(ctx, s, cluster, v)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrUnrecorded, err)
	}
	return number, nil
}

// ErrUnrecorded says that a policy is in force and its history does not have it.
var ErrUnrecorded = errors.New("the policy is in force, but its history could not be written")

// record adds a version to the history.
func record(ctx context.Context, s *stream.Stream, cluster string, v Version) (int, error) {
	for try := 0; ; try++ {
		numbers, err := versions(ctx, s, cluster)
		if err != nil {
			return 0, err
		}
		last := 0
		if len(numbers) > 0 {
			last = numbers[len(numbers)-1]
			newest, err := versionOf(ctx, s, cluster, last)
			if err == nil && newest.Same(v) {
				return last, nil
			}
		}
		v.Number = last + 1
		data, err := v.encode()
		if err != nil {
			return 0, err
		}
		created, err := s.Create(ctx, historyOf(cluster, v.Number), data, 0)
		if err != nil {
			return 0, err
		}
		if !created && try < 10 {
			continue // another one was put in force at the same time
		}
		if !created {
			return 0, fmt.Errorf("version %d of cluster %s is taken", v.Number, cluster)
		}
		for _, n := range numbers {
			if n > v.Number-versionsKept {
				break
			}
			if err := s.Delete(ctx, historyOf(cluster, n)); err != nil {
				return 0, err
			}
		}
		return v.Number, nil
	}
}

func historyOf(cluster string, number int) string {
	return historyKey + "." + cluster + "." + strconv.Itoa(number)
}

// versions returns the numbers of a cluster's versions, sorted.
func versions(ctx context.Context, s *stream.Stream, cluster string) ([]int, error) {
	keys, err := s.Keys(ctx, historyKey+"."+cluster+".*")
	if err != nil {
		return nil, err
	}
	var numbers []int
	for _, key := range keys {
		if n, err := strconv.Atoi(key[strings.LastIndexByte(key, '.')+1:]); err == nil {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// History returns the versions of a cluster's policy that are kept, the newest first. Those that
// can be read are returned with an error about the others.
func History(ctx context.Context, s *stream.Stream, cluster string) ([]Version, error) {
	numbers, err := versions(ctx, s, cluster)
	if err != nil {
		return nil, fmt.Errorf("read the history of the policy: %w", err)
	}
	all := []Version{}
	var errs []error
	for _, n := range slices.Backward(numbers) {
		v, err := versionOf(ctx, s, cluster, n)
		if err != nil {
			errs = append(errs, fmt.Errorf("read version %d of the policy: %w", n, err))
			continue
		}
		all = append(all, v)
	}
	return all, errors.Join(errs...)
}

// versionOf reads one version of a cluster's policy.
func versionOf(ctx context.Context, s *stream.Stream, cluster string, number int) (Version, error) {
	data, err := s.Get(ctx, historyOf(cluster, number))
	if err != nil {
		return Version{}, err
	}
	var d versionDocument
	if err := open(data, version, &d); err != nil {
		return Version{}, err
	}
	v := Version{Number: number, At: d.At, By: d.By, Host: d.Host, Identity: d.Identity, Why: d.Why, Zones: d.Zones}
	if v.Policy, err = read(d.Policy); err == nil {
		v.Sinks, err = readSinks(d.Sinks)
	}
	return v, err
}

func (v Version) encode() ([]byte, error) {
	allowed, err := json.Marshal(document{version, v.Policy})
	if err != nil {
		return nil, fmt.Errorf("encode the policy: %w", err)
	}
	sinks, err := json.Marshal(sinksDocument{sinksVersion, v.Sinks})
	if err != nil {
		return nil, fmt.Errorf("encode the sinks: %w", err)
	}
	return json.Marshal(versionDocument{version, v.Number, v.At, v.By, v.Host, v.Identity, v.Why, allowed, sinks, v.Zones})
}

// Same reports whether two versions put the same in force. The offsets of a time zone that has a name
// count by that name: they are known for some years from when its file was read.
func (v Version) Same(o Version) bool {
	said := func(v Version) []byte {
		v.Policy.Freezes = slices.Clone(v.Policy.Freezes)
		for i := range v.Policy.Freezes {
			if len(v.Zones) == len(v.Policy.Freezes) {
				v.Policy.Freezes[i].Zone = nil
			}
		}
		if len(v.Sinks) == 0 {
			v.Sinks = nil
		}
		text, err := Version{Policy: v.Policy, Sinks: v.Sinks, Zones: v.Zones}.encode()
		if err != nil {
			return nil
		}
		return text
	}
	a, b := said(v), said(o)
	return a != nil && bytes.Equal(a, b)
}

// InForceNow returns the version that is in force in a cluster: one that the history has, with
// who put it there; else one without a number.
func InForceNow(ctx context.Context, s *stream.Stream, cluster string) (Version, error) {
	var now Version
	var err error
	if now.Policy, err = InForce(ctx, s, cluster); err != nil {
		return Version{}, err
	}
	if now.Sinks, err = SinksInForce(ctx, s, cluster); err != nil {
		return Version{}, err
	}
	all, err := History(ctx, s, cluster)
	for _, v := range all {
		now.Zones = v.Zones
		if v.Same(now) {
			return v, nil
		}
	}
	now.Zones = nil
	if Unreadable(err) {
		err = nil // it is not the one in force, which could be read
	}
	return now, err
}
