package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/shared/remedy"
	"github.com/lbremedy/lbremedy/shared/say/chinese"
)

// remote returns a class's hand as a function: calls are signed and answers checked, so class and engine exchange nothing else.
func remote(of *hand.Clients, cluster string, r *remedy.Remedy) (hand.Hand, error) {
	key, err := hand.NewKey()
	if err != nil {
		return nil, err
	}
	keys, err := hand.ParsePublicKeys(key.Public())
	if err != nil {
		return nil, err
	}
	declares := r.Declaration().Digest()
	function := &hand.Served{Hand: same{of.Hand(r)}, Cluster: cluster, Class: r.Class, Declares: declares, Keys: keys}
	return &hand.Remote{
		Class: r, Key: key, Decode: of.Decode, Known: known, Read: of.Kube.Service,
		Pause: func(time.Duration) {}, // for lost answers, which do not occur here
		Send: func(ctx context.Context, call []byte) ([]byte, error) {
			_, answer := function.Answer(ctx, call)
			return answer, nil
		},
	}, nil
}

// known reports whether a format is in the catalogue or in a class's folder. Tests run in the folder of the class, or in test/classes.
func known(format string) bool {
	if chinese.Language().Has(format) {
		return true
	}
	files, err := filepath.Glob("../../functions/*/say.zh.json")
	if err != nil {
		return false
	}
	for _, file := range append(files, "say.zh.json") {
		text, err := os.ReadFile(file)
		twins := map[string]string{}
		if err == nil && json.Unmarshal(text, &twins) == nil && twins[format] != "" {
			return true
		}
	}
	return false
}

type same struct{ hand.Hand }

func (s same) Look(ctx context.Context, q hand.LookRequest) (hand.LookAnswer, error) {
	a, err := s.Hand.Look(ctx, q)
	if err := survives(q); err != nil {
		return a, err
	}
	if err := survives(a); err != nil {
		return a, err
	}
	return a, err
}

func (s same) Apply(ctx context.Context, o hand.Order) (hand.ApplyAnswer, error) {
	a, err := s.Hand.Apply(ctx, o)
	if err := survives(o); err != nil {
		return a, err
	}
	if err := survives(a); err != nil {
		return a, err
	}
	return a, err
}

func survives[T any](v T) error {
	sent, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("send %T: %w", v, err)
	}
	var back T
	if err := json.Unmarshal(sent, &back); err != nil {
		return fmt.Errorf("receive %T: %w", v, err)
	}
	if again, err := json.Marshal(back); err != nil || !bytes.Equal(sent, again) {
		return fmt.Errorf("JSON does not bring %T back as it was: %v\n%s\n%s", v, err, sent, again)
	}
	return nil
}
