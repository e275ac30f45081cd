package cli

import (
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/command"
)

// Times appear in the reader's zone; quoted ones and those in commands stay unchanged.
func TestLocal(t *testing.T) {
	zone := time.Local
	time.Local = time.FixedZone("CST", 8*60*60)
	t.Cleanup(func() { time.Local = zone })
	for text, want := range map[string]string{
		"Paused by ann at 2026-01-02T23:04:05Z: why.":      "Paused by ann at 2026-01-03 07:04:05 CST: why.",
		"The next place is free at 2026-01-02T15:04:05Z.":  "The next place is free at 2026-01-02 23:04:05 CST.",
		"2026-01-02T15:04:05.5Z":                           "2026-01-02 23:04:05 CST",
		"until 2026-01-02T23:04:05+08:00 (soon)":           "until 2026-01-02 23:04:05 CST (soon)",
		"已于2026-01-02T15:04:05Z暂停。":                        "已于2026-01-02 23:04:05 CST暂停。",
		`The annotation is "2026-01-02T15:04:05Z".`:        `The annotation is "2026-01-02T15:04:05Z".`,
		"lbremedy ls --since=2026-01-02T15:04:05Z":         "lbremedy ls --since=2026-01-02T15:04:05Z",
		"a 3f9a12bc-20260102T150405, 2026-99-02T15:04:05Z": "a 3f9a12bc-20260102T150405, 2026-99-02T15:04:05Z",
		"": "",
	} {
		if got := command.Local(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
		if got := Wrap(text, "", 200); got != want+"\n" && text != "" {
			t.Errorf("%q in a report: %q, want %q", text, got, want)
		}
		if got := Plain("\n" + text); got != want {
			t.Errorf("%q in a table: %q, want %q", text, got, want)
		}
	}
	const lines = "Paused by ann at\n2026-01-03 07:04:05 CST: network\nchange\n"
	if got := Wrap("Paused by ann at 2026-01-02T23:04:05Z: network change", "", 34); got != lines {
		t.Errorf("in lines: %q, want %q", got, lines)
	}
}
