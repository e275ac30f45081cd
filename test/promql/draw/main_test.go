package main

import (
	"image"
	_ "image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const board = `{"panels": [
	{"type": "stat", "title": "Yes or no", "gridPos": {"w": 3, "h": 4}, "targets": [{"expr": "min(up)"}], "fieldConfig": {"defaults": {"unit": "bool_yes_no"}}},
	{"type": "timeseries", "title": "Zero", "gridPos": {"y": 4, "w": 12, "h": 8}, "targets": [{"expr": "0 * up", "legendFormat": "zero"}]},
	{"type": "timeseries", "title": "Nothing", "gridPos": {"y": 12, "w": 24, "h": 8}, "targets": [{"expr": "absent_total", "legendFormat": "none"}]},
	{"type": "timeseries", "title": "A line", "gridPos": {"x": 12, "y": 4, "w": 12, "h": 8},
		"targets": [{"expr": "rate(lines_total[$__rate_interval])", "legendFormat": "{{class}}"}]}]}`

const samples = "up 1 1000\nlines_total{class=\"a b\"} 0 1000\nup 1 9000\nlines_total{class=\"a b\"} 8 9000\n"

func TestDraw(t *testing.T) {
	for name, tt := range map[string]struct{ board, samples, want string }{
		"good":          {board, samples, ""},
		"no samples":    {board, "", "has no samples"},
		"no sample":     {board, samples + "up\n", ":5: this is no sample"},
		"no number":     {board, "up one 1000\n", "invalid syntax"},
		"no dashboard":  {`{"panels": 1}`, samples, "cannot unmarshal"},
		"other panel":   {strings.Replace(board, "stat", "heatmap", 1), samples, `"heatmap" can't be drawn`},
		"no expression": {strings.Replace(board, "min(up)", "min(up", 1), samples, "parse error"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, text string) string {
				file := filepath.Join(dir, name)
				if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				return file
			}
			picture := filepath.Join(dir, "picture.png")
			err := run(write("board.json", tt.board), write("samples.txt", tt.samples), picture)
			if tt.want != "" {
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("%v, want %q", err, tt.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			f, err := os.Open(picture)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			drawn, _, err := image.Decode(f)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := drawn.Bounds().Dy(), 12*row*96/72; got != want { // two rows
				t.Errorf("the picture is %d pixels high, want %d: what says nothing is left out", got, want)
			}
			colours := map[any]bool{}
			for x := range drawn.Bounds().Dx() {
				for y := range drawn.Bounds().Dy() {
					colours[drawn.At(x, y)] = true
				}
			}
			if len(colours) < 10 {
				t.Errorf("the picture has %d colours: nothing is drawn", len(colours))
			}
		})
	}
}
