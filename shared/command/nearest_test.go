package command

import "testing"

// A typo has a nearest word, and what nobody can have meant has none.
func TestNearest(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"c0a1b2c3d4e5f6": "c0a1b2c3d4e5f7", "c0a1b2c3d4e5f": "c0a1b2c3d4e5f7", "c1": "c2", "c-prd": "c-prod", "production": "", "": "c2",
	} {
		if got := Nearest(word, []string{"c0a1b2c3d4e5f7", "c-prod", "c2"}); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
	if got := Nearest("c1", nil); got != "" {
		t.Errorf("of none: got %q", got)
	}
}
