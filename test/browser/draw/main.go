// Draw takes the pictures of the console's page: "make capture" runs it.
//
// It is called with the folder into which it writes them.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/lbremedy/lbremedy/test/browser"
)

// A picture is a page as it is looked at.
type picture struct {
	name, path string
	look       browser.Look
	before     []chromedp.Action[chromedp.Void]
}

var pictures = []picture{
	{name: "now", path: "/", look: browser.Look{Width: 1280, Height: 1060}},
	{
		name: "questions", path: "/questions", look: browser.Look{Width: 1280, Height: 900, Dark: true},
		before: []chromedp.Action[chromedp.Void]{chromedp.Click(chromedp.CSS(".incident summary"))},
	},
	{
		name: "answer", path: "/questions", look: browser.Look{Width: 1280, Height: 720},
		before: []chromedp.Action[chromedp.Void]{
			chromedp.Click(chromedp.CSS(".incident summary")), chromedp.Click(chromedp.CSS("[data-every]")),
			chromedp.Click(chromedp.CSS(".incident button[value=approve]")), chromedp.WaitVisible(chromedp.CSS("#sure")),
		},
	},
	{
		name: "case", path: "/cases?q=cart", look: browser.Look{Width: 1280, Height: 1060},
		before: []chromedp.Action[chromedp.Void]{chromedp.Click(chromedp.CSS(".rows a")), chromedp.WaitVisible(chromedp.CSS("#course"))},
	},
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: draw FOLDER")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if err := draw(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "draw:", err)
		os.Exit(1)
	}
}

func draw(ctx context.Context, folder string) error {
	b, closeBrowser, err := browser.Open(ctx)
	if err != nil {
		return err
	}
	defer closeBrowser()
	w, err := browser.Start(ctx, "")
	if err != nil {
		return err
	}
	defer w.Close()
	for _, p := range pictures {
		tab, end, err := b.Tab(nil)
		if err != nil {
			return err
		}
		err = p.look.Set(tab)
		if err == nil {
			err = chromedp.Do(tab, append([]chromedp.Action[chromedp.Void]{chromedp.Navigate(w.At(p.path)), browser.Live()}, p.before...)...)
		}
		var png []byte
		if err == nil {
			png, err = chromedp.Run(tab, chromedp.CaptureScreenshot())
		}
		end()
		if err != nil {
			return fmt.Errorf("draw %s: %w", p.name, err)
		}
		if err := os.WriteFile(filepath.Join(folder, p.name+".png"), png, 0o644); err != nil {
			return err
		}
	}
	return nil
}
