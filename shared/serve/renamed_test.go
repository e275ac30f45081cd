package serve

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// A variable's old name counts where the new one is not set, and is told of once.
func TestRenamed(t *testing.T) {
	env := map[string]string{oldPrefix + "TOKEN": "old", oldPrefix + "OPEN": "true", newPrefix + "OPEN": "false", "PORT": "8080"}
	var log bytes.Buffer
	getenv := renamed(func(name string) string { return env[name] }, slog.New(slog.NewTextHandler(&log, nil)))
	for range 2 {
		for name, want := range map[string]string{newPrefix + "TOKEN": "old", newPrefix + "OPEN": "false", newPrefix + "JWT_KEYS": "", "PORT": "8080"} {
			if got := getenv(name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
	}
	if said := log.String(); strings.Count(said, oldPrefix) != 1 || !strings.Contains(said, newPrefix+"TOKEN") {
		t.Errorf("the log says %q", said)
	}
}
