package remedy_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lbremedy/lbremedy/shared/remedy"
)

func TestSettings(t *testing.T) {
	t.Parallel()
	none := int64(0)
	for text, want := range map[string]struct {
		remedy.Settings
		kept  int64
		delay time.Duration
	}{
		`{}`: {kept: 8, delay: time.Minute},
		`{"vswitches":{"allow":["vsw-1"]},"payBySpec":true}`: {
			Settings: remedy.Settings{VSwitches: remedy.VSwitches{Allow: []string{"vsw-1"}}, PayBySpec: true}, kept: 8, delay: time.Minute},
		`{"vswitches":{"reserve":0},"ramDelay":"2s"}`: {
			Settings: remedy.Settings{VSwitches: remedy.VSwitches{Reserve: &none}, RAMDelay: remedy.Duration(2 * time.Second)}, delay: 2 * time.Second},
	} {
		var got remedy.Settings
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.Settings, got); diff != "" || got.VSwitches.Kept() != want.kept || got.Delay() != want.delay {
			t.Errorf("%s: %d, %s: -want +got:\n%s", text, got.VSwitches.Kept(), got.Delay(), diff)
		}
		if back, err := json.Marshal(got); err != nil || string(back) != text {
			t.Errorf("%s becomes %s, %v", text, back, err)
		}
	}
	for _, text := range []string{`{"ramDelay":"0s"}`, `{"ramDelay":"-1s"}`, `{"ramDelay":60}`, `{"vswitches":{"reserve":"all"}}`} {
		if err := json.Unmarshal([]byte(text), new(remedy.Settings)); err == nil {
			t.Errorf("%s is read", text)
		}
	}
}
