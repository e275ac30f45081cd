package testbed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"

	"github.com/lbremedy/lbremedy/shared/ccm"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/test/cluster"
	"github.com/lbremedy/lbremedy/test/sim"
)

const fixtureFiles = "functions/*/testdata/fixtures.yaml"

type fixtureFile struct {
	Class    string        `json:"class"`
	Fixtures []fixtureSpec `json:"fixtures"`
}

type fixtureSpec struct {
	Name    string          `json:"name"`
	Story   string          `json:"story"`
	Says    string          `json:"says"`
	Ends    event.Result    `json:"ends"`
	Config  Config          `json:"testbed"`
	Prepare []operationSpec `json:"prepare"`
	Inject  []operationSpec `json:"inject"`
	Repair  []operationSpec `json:"repair"`
}

type operationSpec struct{ do operation }

var operations = map[string]func(arg []byte) (operation, error){
	"create":       readCreate,
	"annotate":     readAnnotate,
	"touch":        readNothing(touched),
	"delete":       readNothing(deleted),
	"account":      readPatch(func(p []byte) operation { return account(func(st *sim.State) { patch(p, &st.Account) }) }, sim.Account{}),
	"ram":          readPatch(func(p []byte) operation { return account(func(st *sim.State) { patch(p, &st.RAM) }) }, sim.RAM{}),
	"loadBalancer": readPatch(func(p []byte) operation { return balancer(func(lb *sim.LoadBalancer) { patch(p, lb) }) }, sim.LoadBalancer{}),
	"nlb":          readPatch(func(p []byte) operation { return networkBalancer(func(_ *sim.State, n *sim.NLB) { patch(p, n) }) }, sim.NLB{}),
	"refuse":       readRefuse,
	"answer":       readAnswer,
	"accept":       readNothing(accepted),
	"ignore":       readIgnore,
	"groups":       readGroups,
}

// UnmarshalJSON decodes a map with one key, the operation's name.
func (s *operationSpec) UnmarshalJSON(data []byte) error {
	var named map[string]json.RawMessage
	if err := json.Unmarshal(data, &named); err != nil {
		return fmt.Errorf("read an operation: %w", err)
	}
	known := strings.Join(slices.Sorted(maps.Keys(operations)), ", ")
	if len(named) != 1 {
		return fmt.Errorf("an operation has %d names: give it one of %s", len(named), known)
	}
	for name, arg := range named {
		read, ok := operations[name]
		if !ok {
			return fmt.Errorf("there is no operation %q: there are %s", name, known)
		}
		do, err := read(arg)
		if err != nil {
			return fmt.Errorf("read the operation %s: %w", name, err)
		}
		s.do = do
	}
	return nil
}

// readCreate creates the Service, with annotations by short names. An NLB gets a zone unless the annotation zone-maps is empty.
func readCreate(arg []byte) (operation, error) {
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

// readAnnotate returns a change of annotations by short names; an empty value removes one.
func readAnnotate(arg []byte) (operation, error) {
	var to map[string]string
	if err := strict(arg, &to); err != nil {
		return nil, err
	}
	return annotated(pairs(to)...), nil
}

func readRefuse(arg []byte) (operation, error) {
	var of struct {
		Action  string `json:"action"`
		Code    string `json:"code"`
		Message string `json:"message"` // empty: the code's usual message
	}
	if err := strict(arg, &of); err != nil {
		return nil, err
	}
	return refused(of.Action, of.Code, of.Message), nil
}

func readGroups(arg []byte) (operation, error) {
	var n int
	err := json.Unmarshal(arg, &n)
	return func(_ context.Context, tb *Testbed, service string) error {
		name := ccm.DefaultName(tb.watch.service(service))
		tb.Cloud.Edit(func(st *sim.State) {
			for i := range n {
				id := fmt.Sprintf("sg-%s-%d", service, i+1)
				st.SecurityGroups[id] = &sim.SecurityGroup{ID: id, Name: id, VPC: vpc, Tags: map[string]string{nameTag: name}}
			}
		})
		return nil
	}, err
}

func readIgnore(arg []byte) (operation, error) {
	var of struct {
		Action string `json:"action"`
	}
	if err := strict(arg, &of); err != nil {
		return nil, err
	}
	return failing(sim.Fault{Product: "slb", Action: of.Action, Caller: controllerName, Code: "Ignored", Status: http.StatusOK}), nil
}

func readAnswer(arg []byte) (operation, error) {
	var of struct {
		Action string `json:"action"`
		Status int    `json:"status"`
		Body   string `json:"body"`
	}
	if err := strict(arg, &of); err != nil {
		return nil, err
	}
	return failing(sim.Fault{Product: "slb", Action: of.Action, Status: of.Status, Body: of.Body}), nil
}

func readNothing(do operation) func([]byte) (operation, error) {
	return func(arg []byte) (operation, error) { return do, strict(arg, &struct{}{}) }
}

// readPatch accepts an operation that changes named fields of a value of the cloud. zero's type validates the names.
func readPatch(do func(patch []byte) operation, zero any) func([]byte) (operation, error) {
	return func(arg []byte) (operation, error) {
		return do(slices.Clone(arg)), strict(arg, reflect.New(reflect.TypeOf(zero)).Interface())
	}
}

// patch sets the fields of v that p names. readPatch has validated p.
func patch(p []byte, v any) {
	if err := json.Unmarshal(p, v); err != nil {
		panic("testbed: a patch does not decode: " + err.Error())
	}
}

func strict(data []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(v)
}

func pairs(of map[string]string) []string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		all = append(all, name, of[name])
	}
	return all
}

func sequence(of []operationSpec) operation {
	if len(of) == 0 {
		return nil
	}
	var all []operation
	for _, l := range of {
		all = append(all, l.do)
	}
	return inOrder(all...)
}

// declared returns the fixtures in the folders of classes. An unreadable file is a mistake in the tree.
var declared = sync.OnceValue(func() []Fixture {
	root, err := cluster.Root()
	if err != nil {
		panic("testbed: " + err.Error())
	}
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(fixtureFiles)))
	if err != nil || len(files) == 0 {
		panic(fmt.Sprintf("testbed: there is no %s: %v", fixtureFiles, err))
	}
	var all []Fixture
	for _, file := range files {
		fixtures, err := readFixtures(file)
		if err != nil {
			panic(fmt.Sprintf("testbed: read %s: %v", file, err))
		}
		all = append(all, fixtures...)
	}
	return all
})

func readFixtures(file string) ([]Fixture, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var of fixtureFile
	if err := yaml.UnmarshalStrict(text, &of); err != nil {
		return nil, err
	}
	folder := filepath.Base(filepath.Dir(filepath.Dir(file)))
	if strings.ReplaceAll(of.Class, "-", "") != folder {
		return nil, fmt.Errorf("the fixtures of the class %q do not belong in the folder %s", of.Class, folder)
	}
	var all []Fixture
	for _, s := range of.Fixtures {
		if len(s.Inject) == 0 {
			return nil, errors.New("the fixture injects nothing: " + s.Name)
		}
		all = append(all, Fixture{
			Name: s.Name, Class: of.Class, Story: s.Story, Says: s.Says, Ends: s.Ends, Heals: s.Ends.Worked(), Config: s.Config,
			prepare: sequence(s.Prepare), inject: sequence(s.Inject), repair: sequence(s.Repair),
		})
	}
	return all, nil
}
