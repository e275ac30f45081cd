// Draw draws the dashboard of infra/observability from the samples of "make capture": the first rows of its panels in Grafana's
// layout, with query results of Prometheus' own engine. It omits panels without data or with only zeros, and fills their place.
// It supports only the dashboard's two kinds of panels and their units.
package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/tsdb"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

const (
	column, row = 46, 26 // of the grid, in points
	gap         = 4      // between panels, in points
	rows        = 4      // number of drawn rows
	step        = 2 * time.Second
	interval    = "15s" // $__rate_interval: several samples
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: draw DASHBOARD SAMPLES PICTURE")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "draw:", err)
		os.Exit(1)
	}
}

type panel struct {
	Type, Title string
	GridPos     struct{ X, Y, W, H int }
	Targets     []struct{ Expr, LegendFormat string }
	FieldConfig struct {
		Defaults struct {
			Unit     string
			Decimals *int
		}
	}
}

func run(dashboard, samples, picture string) error {
	data, err := os.ReadFile(dashboard)
	if err != nil {
		return err
	}
	var board struct {
		Title  string
		Panels []panel
	}
	if err := json.Unmarshal(data, &board); err != nil {
		return fmt.Errorf("read %s: %w", dashboard, err)
	}
	s, err := load(samples)
	if err != nil {
		return err
	}
	defer s.close()
	panels, height, err := s.arrange(board.Panels)
	if err != nil {
		return err
	}
	canvas := vgimg.NewWith(vgimg.UseWH(24*column, vg.Length(height*row)), vgimg.UseDPI(96), vgimg.UseBackgroundColor(color.Gray{0xf0}))
	all := draw.New(canvas)
	for _, p := range panels {
		x, y := vg.Length(p.GridPos.X*column), vg.Length((height-p.GridPos.Y-p.GridPos.H)*row)
		area := draw.Canvas{Canvas: all.Canvas, Rectangle: vg.Rectangle{
			Min: vg.Point{X: x + gap, Y: y + gap}, Max: vg.Point{X: x + vg.Length(p.GridPos.W*column) - gap, Y: y + vg.Length(p.GridPos.H*row) - gap},
		}}
		area.SetColor(color.White)
		area.Fill(area.Rectangle.Path())
		if err := s.draw(area, p); err != nil {
			return fmt.Errorf("draw the panel %q: %w", p.Title, err)
		}
	}
	out, err := os.Create(picture)
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := (vgimg.PngCanvas{Canvas: canvas}).WriteTo(out); err != nil {
		return err
	}
	return out.Close()
}

func (s *store) arrange(all []panel) (drawn []panel, height int, err error) {
	slices.SortStableFunc(all, func(a, b panel) int { return cmp.Or(a.GridPos.Y-b.GridPos.Y, a.GridPos.X-b.GridPos.X) })
	for n := 0; n < rows && len(all) > 0; {
		end := slices.IndexFunc(all, func(p panel) bool { return p.GridPos.Y != all[0].GridPos.Y })
		if end < 0 {
			end = len(all)
		}
		var row []panel
		for _, p := range all[:end] {
			speaks, err := s.speaks(p)
			if err != nil {
				return nil, 0, fmt.Errorf("draw the panel %q: %w", p.Title, err)
			}
			if speaks {
				row = append(row, p)
			}
		}
		all = all[end:]
		if len(row) == 0 {
			continue
		}
		for i := range row {
			at := &row[i].GridPos
			at.X, at.Y = i*24/len(row), height
			at.W = (i+1)*24/len(row) - at.X
		}
		drawn, height, n = append(drawn, row...), height+row[0].GridPos.H, n+1
	}
	return drawn, height, nil
}

// speaks reports whether a panel shows more than zeros. A single number is shown even if it is zero.
func (s *store) speaks(p panel) (bool, error) {
	for _, target := range p.Targets {
		m, err := s.ask(target.Expr)
		if err != nil {
			return false, err
		}
		for _, series := range m {
			if p.Type == "stat" || slices.ContainsFunc(series.Floats, func(f promql.FPoint) bool { return f.F > 0 }) {
				return true, nil
			}
		}
	}
	return false, nil
}

type store struct {
	db         *tsdb.DB
	dir        string
	engine     *promql.Engine
	start, end time.Time
}

var line = regexp.MustCompile(`^([a-z_]+(?:\{.*\})?) (\S+) ([0-9]+)$`)

func load(file string) (_ *store, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	dir, err := os.MkdirTemp("", "draw-")
	if err != nil {
		return nil, err
	}
	s := &store{dir: dir}
	if s.db, err = tsdb.Open(filepath.Join(dir, "tsdb"), nil, nil, tsdb.DefaultOptions(), nil); err != nil {
		return nil, fmt.Errorf("open a store: %w", err)
	}
	known := map[string]labels.Labels{}
	language := parser.NewParser(parser.Options{})
	app := s.db.Appender(context.Background())
	first, last := int64(math.MaxInt64), int64(0)
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		part := line.FindStringSubmatch(lines.Text())
		if part == nil {
			return nil, fmt.Errorf("%s:%d: this is no sample", file, n)
		}
		series, ok := known[part[1]]
		if !ok {
			expr, err := language.ParseExpr(part[1])
			if err != nil {
				return nil, fmt.Errorf("%s:%d: %w", file, n, err)
			}
			b := labels.NewScratchBuilder(8)
			for _, m := range expr.(*parser.VectorSelector).LabelMatchers {
				b.Add(m.Name, m.Value)
			}
			b.Sort()
			series = b.Labels()
			known[part[1]] = series
		}
		value, err := strconv.ParseFloat(part[2], 64)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, n, err)
		}
		at, err := strconv.ParseInt(part[3], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, n, err)
		}
		first, last = min(first, at), max(last, at)
		if _, err := app.Append(0, series, at, value); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if last == 0 {
		return nil, fmt.Errorf("%s has no samples", file)
	}
	if err := app.Commit(); err != nil {
		return nil, err
	}
	s.start, s.end = time.UnixMilli(first), time.UnixMilli(last)
	s.engine = promql.NewEngine(promql.EngineOpts{MaxSamples: 10_000_000, Timeout: time.Minute, LookbackDelta: 10 * time.Second, Parser: language})
	return s, nil
}

func (s *store) close() {
	s.db.Close()
	s.engine.Close()
	os.RemoveAll(s.dir)
}

var settings = strings.NewReplacer("$__rate_interval", interval, "$cluster", ".*")

func (s *store) ask(expr string) (promql.Matrix, error) {
	q, err := s.engine.NewRangeQuery(context.Background(), s.db, nil, settings.Replace(expr), s.start, s.end, step)
	if err != nil {
		return nil, err
	}
	m, err := q.Exec(context.Background()).Matrix()
	if err != nil {
		return nil, err
	}
	slices.SortFunc(m, func(a, b promql.Series) int { return labels.Compare(a.Metric, b.Metric) })
	return m, nil
}

func (s *store) draw(area draw.Canvas, p panel) error {
	switch p.Type {
	case "stat":
		return s.stat(area, p)
	case "timeseries":
		return s.lines(area, p)
	}
	return fmt.Errorf("panels of the kind %q can't be drawn", p.Type)
}

var ink = color.Gray{0x30}

func style(size vg.Length, x draw.XAlignment, y draw.YAlignment) draw.TextStyle {
	return draw.TextStyle{Color: ink, Font: font.Font{Typeface: plot.DefaultFont.Typeface, Variant: "Sans", Size: size}, XAlign: x, YAlign: y,
		Handler: plot.DefaultTextHandler}
}

func (s *store) stat(area draw.Canvas, p panel) error {
	m, err := s.ask(p.Targets[0].Expr)
	if err != nil {
		return err
	}
	said := "–"
	if len(m) > 0 {
		if points := m[0].Floats; len(points) > 0 && points[len(points)-1].T > s.end.Add(-2*step).UnixMilli() {
			v := points[len(points)-1].F
			if d := p.FieldConfig.Defaults.Decimals; d != nil {
				v = math.Round(v*math.Pow10(*d)) / math.Pow10(*d)
			}
			said = value(v, p.FieldConfig.Defaults.Unit)
		}
	}
	center := area.Center()
	area.FillText(style(9, draw.XCenter, draw.YTop), vg.Point{X: center.X, Y: area.Max.Y - 8}, p.Title)
	area.FillText(style(24, draw.XCenter, draw.YCenter), vg.Point{X: center.X, Y: center.Y - 8}, said)
	return nil
}

func value(v float64, unit string) string {
	switch unit {
	case "bool_yes_no":
		if v == 0 {
			return "No"
		}
		return "Yes"
	case "s":
		return strconv.FormatFloat(v, 'g', 3, 64) + " s"
	case "percentunit":
		return strconv.FormatFloat(100*v, 'g', 2, 64) + " %"
	case "bytes":
		for _, u := range []string{"B", "KiB", "MiB", "GiB"} {
			if v < 1024 || u == "GiB" {
				return strconv.FormatFloat(v, 'f', 0, 64) + " " + u
			}
			v /= 1024
		}
	case "eps", "reqps":
		return strconv.FormatFloat(v, 'g', 3, 64) + "/s"
	}
	return strconv.FormatFloat(math.Round(100*v)/100, 'f', -1, 64)
}

var variable = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)

var palette = []color.Color{
	color.RGBA{0x37, 0x87, 0x2d, 255}, color.RGBA{0xe0, 0xb4, 0x00, 255}, color.RGBA{0x1f, 0x60, 0xc4, 255}, color.RGBA{0xc4, 0x16, 0x2a, 255},
	color.RGBA{0x8f, 0x3b, 0xb8, 255}, color.RGBA{0xfa, 0x64, 0x00, 255}, color.RGBA{0x00, 0x8b, 0x8b, 255}, color.RGBA{0x7c, 0x2e, 0xa3, 255},
}

const most = 9

func (s *store) lines(area draw.Canvas, p panel) error {
	const side, top = 120, 18
	plotted := plot.New()
	plotted.BackgroundColor = color.Transparent
	unit := p.FieldConfig.Defaults.Unit
	plotted.X.Min, plotted.X.Max = 0, s.end.Sub(s.start).Seconds()
	plotted.Y.Min, plotted.Y.Max = 0, 1
	plotted.X.Tick.Marker = plot.TickerFunc(func(low, high float64) []plot.Tick {
		var ticks []plot.Tick
		for at := math.Ceil(low/120) * 120; at <= high; at += 120 {
			ticks = append(ticks, plot.Tick{Value: at, Label: strconv.Itoa(int(at/60)) + " min"})
		}
		return ticks
	})
	plotted.Y.Tick.Marker = plot.TickerFunc(func(low, high float64) []plot.Tick {
		ticks := plot.DefaultTicks{}.Ticks(low, high)
		for i := range ticks {
			if ticks[i].Label != "" {
				ticks[i].Label = value(ticks[i].Value, unit)
			}
		}
		return ticks
	})
	for _, axis := range []*plot.Axis{&plotted.X, &plotted.Y} {
		axis.Tick.Label.Font.Size, axis.Tick.Label.Font.Variant, axis.Tick.Label.Color = 7, "Sans", ink
		axis.LineStyle.Color, axis.Tick.LineStyle.Color = color.Gray{0xc0}, color.Gray{0xc0}
	}
	grid := plotter.NewGrid()
	grid.Vertical.Color, grid.Horizontal.Color = color.Gray{0xe8}, color.Gray{0xe8}
	plotted.Add(grid)

	n := 0
	for _, target := range p.Targets {
		m, err := s.ask(target.Expr)
		if err != nil {
			return err
		}
		for _, series := range m {
			colour := palette[n%len(palette)]
			n++
			for _, piece := range pieces(series.Floats, s.start) {
				for _, xy := range piece {
					plotted.Y.Max = max(plotted.Y.Max, 1.05*xy.Y)
				}
				l, err := plotter.NewLine(piece)
				if err != nil {
					return err
				}
				l.Color, l.Width = colour, 1.2
				plotted.Add(l)
			}
			name := variable.ReplaceAllStringFunc(target.LegendFormat, func(w string) string {
				return series.Metric.Get(variable.FindStringSubmatch(w)[1])
			})
			if n > most {
				continue
			}
			y := area.Max.Y - top - 6 - vg.Length(n)*13
			mark := vg.Rectangle{Min: vg.Point{X: area.Max.X - side, Y: y}, Max: vg.Point{X: area.Max.X - side + 8, Y: y + 6}}
			area.SetColor(colour)
			area.Fill(mark.Path())
			area.FillText(style(7.5, draw.XLeft, draw.YBottom), vg.Point{X: mark.Max.X + 4, Y: y - 1}, name)
		}
	}
	if n > most {
		area.FillText(style(7.5, draw.XLeft, draw.YBottom), vg.Point{X: area.Max.X - side + 12, Y: area.Max.Y - top - 7 - (most+1)*13},
			fmt.Sprintf("and %d more", n-most))
	}
	if n == 0 {
		area.FillText(style(9, draw.XCenter, draw.YCenter), area.Center(), "nothing")
	}
	area.FillText(style(9, draw.XLeft, draw.YTop), vg.Point{X: area.Min.X + 8, Y: area.Max.Y - 6}, p.Title)
	plotted.Draw(draw.Crop(area, 4, -side-8, 4, -top))
	return nil
}

func pieces(points []promql.FPoint, start time.Time) []plotter.XYs {
	var out []plotter.XYs
	last := int64(math.MinInt64)
	for _, p := range points {
		if math.IsNaN(p.F) || math.IsInf(p.F, 0) {
			continue
		}
		if last < p.T-step.Milliseconds() {
			out = append(out, nil)
		}
		last = p.T
		out[len(out)-1] = append(out[len(out)-1], plotter.XY{X: float64(p.T-start.UnixMilli()) / 1000, Y: p.F})
	}
	return out
}
