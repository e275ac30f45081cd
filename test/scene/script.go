package scene

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/sim"
)

// scriptFiles are where classes have the scenes of their own, below the root of the
// repository.
const scriptFiles = "functions/*/testdata/scenes.yaml"

// A scripts is such a file.
type scripts struct {
	Class  string   `json:"class"`
	Scenes []script `json:"scenes"`
}

// A script is a scene as data; see [Scene] for what its fields mean.
type script struct {
	Name    string       `json:"name"`
	Story   string       `json:"story"`
	Says    string       `json:"says"`
	Ends    event.Result `json:"ends"`
	On      Setting      `json:"stage"`
	Prepare []line       `json:"prepare"`
	Spoil   []line       `json:"spoil"`
	Mend    []line       `json:"mend"`
}

// A line is one deed of a script, by its name.
type line struct{ do deed }

// lines are the deeds that a script may name. Each gets what stands behind its name.
var lines = map[string]func(arg []byte) (deed, error){
	"create":       createLine,
	"annotate":     annotateLine,
	"touch":        bareLine(touched),
	"delete":       bareLine(deleted),
	"account":      patchLine(func(p []byte) deed { return account(func(st *sim.State) { patch(p, &st.Account) }) }, sim.Account{}),
	"ram":          patchLine(func(p []byte) deed { return account(func(st *sim.State) { patch(p, &st.RAM) }) }, sim.RAM{}),
	"loadBalancer": patchLine(func(p []byte) deed { return balancer(func(lb *sim.LoadBalancer) { patch(p, lb) }) }, sim.LoadBalancer{}),
	"nlb":          patchLine(func(p []byte) deed { return networkBalancer(func(_ *sim.State, n *sim.NLB) { patch(p, n) }) }, sim.NLB{}),
	"refuse":       refuseLine,
	"accept":       bareLine(accepted),
}

// UnmarshalJSON reads a map with one key, the name of a deed.
func (l *line) UnmarshalJSON(data []byte) error {
	var named map[string]json.RawMessage
	if err := json.Unmarshal(data, &named); err != nil {
		return fmt.Errorf("read a deed: %w", err)
	}
	known := strings.Join(slices.Sorted(maps.Keys(lines)), ", ")
	if len(named) != 1 {
		return fmt.Errorf("a deed has %d names: give it one of %s", len(named), known)
	}
	for name, arg := range named {
		read, ok := lines[name]
		if !ok {
			return fmt.Errorf("there is no deed %q: there are %s", name, known)
		}
		do, err := read(arg)
		if err != nil {
			return fmt.Errorf("read the deed %s: %w", name, err)
		}
		l.do = do
	}
	return nil
}

// createLine creates the Service, with annotations by their short names. An NLB gets a
// zone, unless the annotation zone-maps is empty.
func createLine(arg []byte) (deed, error) {
	var of struct {
		NLB         bool              `json:"nlb"`
		Annotations map[string]string `json:"annotations"`
	}
	if err := strict(arg, &of); err != nil {
		return nil, err
	}
	options := []option{with(pairs(of.Annotations)...)}
	if of.NLB {
		options = append(options, network)
	}
	if zones, ok := of.Annotations["zone-maps"]; ok && zones == "" {
		options = append(options, bare)
	}
	return created(options...), nil
}

// annotateLine changes annotations by their short names; an empty value takes one away.
func annotateLine(arg []byte) (deed, error) {
	var to map[string]string
	if err := strict(arg, &to); err != nil {
		return nil, err
	}
	return annotated(pairs(to)...), nil
}

// refuseLine makes the cloud refuse an action of CLB until accept.
func refuseLine(arg []byte) (deed, error) {
	var of struct {
		Action  string `json:"action"`
		Code    string `json:"code"`
		Message string `json:"message"` // empty: the usual one of the code
	}
	if err := strict(arg, &of); err != nil {
		return nil, err
	}
	return refused(of.Action, of.Code, of.Message), nil
}

// bareLine is a deed that takes nothing: {} stands behind its name.
func bareLine(do deed) func([]byte) (deed, error) {
	return func(arg []byte) (deed, error) { return do, strict(arg, &struct{}{}) }
}

// patchLine is a deed that changes those fields of a value of the cloud that are named.
// zero is of the type of the value, to which the names are held.
func patchLine(do func(patch []byte) deed, zero any) func([]byte) (deed, error) {
	return func(arg []byte) (deed, error) {
		return do(slices.Clone(arg)), strict(arg, reflect.New(reflect.TypeOf(zero)).Interface())
	}
}

// patch changes the fields of v that p names. patchLine has read p before.
func patch(p []byte, v any) {
	if err := json.Unmarshal(p, v); err != nil {
		panic("scene: a patch does not decode: " + err.Error())
	}
}

// strict reads JSON into v and refuses fields that v does not have.
func strict(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

// pairs returns names and values in turn, sorted.
func pairs(of map[string]string) []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		all = append(all, name, of[name])
	}
	return all
}

// turn returns the deed of some lines, nil of none.
func turn(of []line) deed {
	if len(of) == 0 {
		return nil
	}
	var all []deed
	for _, l := range of {
		all = append(all, l.do)
	}
	return inTurn(all...)
}

// scripted returns the scenes that classes have in their folders. A file that can't be
// read is a mistake in the tree.
var scripted = sync.OnceValue(func() []Scene {
	root, err := cluster.Root()
	if err != nil {
		panic("scene: " + err.Error())
	}
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(scriptFiles)))
	if err != nil || len(files) == 0 {
		panic(fmt.Sprintf("scene: there is no %s: %v", scriptFiles, err))
	}
	var all []Scene
	for _, file := range files {
		scenes, err := readScripts(file)
		if err != nil {
			panic(fmt.Sprintf("scene: read %s: %v", file, err))
		}
		all = append(all, scenes...)
	}
	return all
})

// readScripts returns the scenes of one file.
func readScripts(file string) ([]Scene, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var of scripts
	if err := yaml.UnmarshalStrict(text, &of); err != nil {
		return nil, err
	}
	folder := filepath.Base(filepath.Dir(filepath.Dir(file)))
	if strings.ReplaceAll(of.Class, "-", "") != folder {
		return nil, fmt.Errorf("the scenes of the class %q do not belong into the folder %s", of.Class, folder)
	}
	var all []Scene
	for _, s := range of.Scenes {
		if len(s.Spoil) == 0 {
			return nil, errors.New("nothing goes wrong in the scene " + s.Name)
		}
		all = append(all, Scene{
			Name: s.Name, Class: of.Class, Story: s.Story, Says: s.Says, Ends: s.Ends, Heals: s.Ends == event.Fixed, On: s.On,
			prepare: turn(s.Prepare), spoil: turn(s.Spoil), mend: turn(s.Mend),
		})
	}
	return all, nil
}
