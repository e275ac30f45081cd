// Package browser tests lbremedy's console in a headless Chromium, as a person uses it. It is a separate module, which keeps the browser's
// driver out of lbremedy's dependencies. The program test/console of the main module runs the console and executes orders.
package browser

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

var names = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}

// Find returns the path of Chromium, or an error if it is not installed.
func Find() (string, error) {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("there is no Chromium here, so that the tests in a browser are left out: install Debian's package chromium")
}

// A World is a running console and its data.
type World struct {
	Address string // of the console, with its key

	orders io.WriteCloser
	lines  chan string
	mu     sync.Mutex
	end    func()
}

// Start starts a world in the repository until Close: "" has the demonstration's broken Services, "big" 5,000 working ones.
func Start(ctx context.Context, kind string) (*World, error) {
	args := []string{"run", "./test/console"}
	if kind != "" {
		args = append(args, kind)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = "../.."
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	orders, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the world: %w", err)
	}
	w := &World{orders: orders, lines: make(chan string, 16)}
	w.end = sync.OnceFunc(func() { orders.Close(); _ = cmd.Wait() })
	go func() {
		defer close(w.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			w.lines <- lines.Text()
		}
	}()
	if w.Address, err = w.line(ctx); err != nil {
		w.end()
		return nil, fmt.Errorf("start the world: %w", err)
	}
	return w, nil
}

// Close ends the world.
func (w *World) Close() { w.end() }

func (w *World) line(ctx context.Context) (string, error) {
	select {
	case line, ok := <-w.lines:
		if !ok {
			return "", errors.New("the program has ended")
		}
		return line, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// Order executes an order in the world, and returns the answer.
func (w *World) Order(ctx context.Context, order string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := fmt.Fprintln(w.orders, order); err != nil {
		return "", err
	}
	answer, err := w.line(ctx)
	if why, failed := strings.CutPrefix(answer, "failed: "); err == nil && failed {
		err = fmt.Errorf("%s: %s", order, why)
	}
	return answer, err
}

// At returns the URL of a page, with the key.
func (w *World) At(path string) string {
	base, key, _ := strings.Cut(w.Address, "/?")
	sign := "?"
	if strings.Contains(path, "?") {
		sign = "&"
	}
	return base + path + sign + key
}

// A Browser is a Chromium with an empty profile. Each tab is a context.
type Browser struct{ ctx context.Context }

// Open starts a browser that ends with ctx or the returned function.
func Open(ctx context.Context) (*Browser, func(), error) {
	program, err := Find()
	if err != nil {
		return nil, nil, err
	}
	profile, err := os.MkdirTemp("", "lbremedy-browser-")
	if err != nil {
		return nil, nil, err
	}
	flags := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(program), chromedp.UserDataDir(profile), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.WindowSize(1280, 900), chromedp.WSURLReadTimeout(2*time.Minute),
	)
	allocated, end := chromedp.NewExecAllocator(ctx, flags...)
	tab, closeTab := chromedp.NewContext(allocated)
	stop := func() {
		closeTab()
		end()
		os.RemoveAll(profile)
	}
	if err := chromedp.Do(tab, chromedp.Navigate("about:blank")); err != nil {
		stop()
		return nil, nil, fmt.Errorf("start %s: %w", program, err)
	}
	return &Browser{tab}, stop, nil
}

// Tab opens a tab and calls asked with each requested URL. The returned function closes it.
func (b *Browser) Tab(asked func(url string), of ...chromedp.ContextOption) (context.Context, func(), error) {
	tab, end := chromedp.NewContext(b.ctx, of...)
	err := chromedp.Do(tab, chromedp.Navigate("about:blank"))
	if err == nil && asked != nil {
		err = chromedp.Listen(tab, func(e any) {
			if r, ok := e.(*network.EventRequestWillBeSent); ok {
				asked(r.Request.URL)
			}
		})
	}
	if err == nil {
		_, err = chromedp.Call(tab, network.Enable, network.EnableParams{})
	}
	if err != nil {
		end()
		return nil, nil, err
	}
	return tab, end, nil
}

// Look is the viewport and the preferences of a tab.
type Look struct {
	Width, Height int64
	Dark          bool
	Language      string // requested language; empty: English
}

// Set applies the look to a tab.
func (l Look) Set(tab context.Context) error {
	scheme := "light"
	if l.Dark {
		scheme = "dark"
	}
	_, err := chromedp.Call(tab, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: l.Width, Height: l.Height, DeviceScaleFactor: 1, Mobile: l.Width < 600,
	})
	if err == nil {
		_, err = chromedp.Call(tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
	}
	if err == nil {
		_, err = chromedp.Call(tab, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{
			Headers: network.Headers{"Accept-Language": cmp.Or(l.Language, "en")},
		})
	}
	return err
}

// Live waits until a page receives changes.
func Live() chromedp.Action[chromedp.Void] {
	return chromedp.WaitVisible(chromedp.CSS(`#live[data-state="on"]`))
}
