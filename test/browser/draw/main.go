// Draw takes the pictures of the console and of cards in chats: "make capture" runs it.
//
// With a folder it writes the console's pictures into that; with a page of HTML and a file it
// writes a picture of the page.
package main

import (
	"context"
	"errors"
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

const chinese = "zh-CN"

var (
	opened = []chromedp.Action[chromedp.Void]{chromedp.Click(chromedp.CSS(".incident summary"))}
	ofCase = []chromedp.Action[chromedp.Void]{chromedp.Click(chromedp.CSS(".rows a")), chromedp.WaitVisible(chromedp.CSS("#course"))}
	answer = append(opened[:1:1], chromedp.Click(chromedp.CSS("[data-every]")),
		chromedp.Click(chromedp.CSS(".incident button[value=approve]")), chromedp.WaitVisible(chromedp.CSS("#sure")))
)

// wide is the screen of a computer.
const wide = 1280

var pictures = []picture{
	{name: "case", path: "/cases?q=dns", look: browser.Look{Width: wide, Height: 724}, before: ofCase},
	{name: "case.zh", path: "/cases?q=dns", look: browser.Look{Width: wide, Height: 702, Language: chinese}, before: ofCase},
	{name: "phone", path: "/cases?q=dns", look: browser.Look{Width: 400, Height: 800, Dark: true}, before: ofCase},
	{name: "now", path: "/", look: browser.Look{Width: wide, Height: 900}},
	{name: "questions", path: "/questions", look: browser.Look{Width: wide, Height: 736, Dark: true}, before: opened},
	{name: "answer", path: "/questions", look: browser.Look{Width: wide, Height: 760}, before: answer},
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	var err error
	switch len(os.Args) {
	case 2:
		err = draw(ctx, os.Args[1])
	case 3:
		err = drawPage(ctx, os.Args[1], os.Args[2])
	default:
		err = errors.New("usage: draw FOLDER, or draw PAGE FILE")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "draw:", err)
		os.Exit(1)
	}
}

// legible returns an error where Chinese would be drawn as boxes.
func legible(tab context.Context) error {
	differ, err := chromedp.Run(tab, chromedp.Evaluate[bool](`(() => {
		const ink = (text) => {
			const c = document.createElement("canvas").getContext("2d");
			c.font = "32px sans-serif";
			c.fillText(text, 0, 40);
			return c.canvas.toDataURL();
		};
		return ink("\u8d1f") !== ink("\u8f7d");
	})()`))
	if err == nil && !differ {
		err = errors.New("there is no font for Chinese here: install Debian's package fonts-wqy-microhei")
	}
	return err
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
			err = legible(tab)
		}
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

// drawPage takes a picture of a whole page.
func drawPage(ctx context.Context, page, file string) error {
	page, err := filepath.Abs(page)
	if err != nil {
		return err
	}
	b, closeBrowser, err := browser.Open(ctx)
	if err != nil {
		return err
	}
	defer closeBrowser()
	tab, end, err := b.Tab(nil)
	if err != nil {
		return err
	}
	defer end()
	look := browser.Look{Width: 1000, Height: 100}
	var png []byte
	if err = look.Set(tab); err == nil {
		err = chromedp.Do(tab, chromedp.Navigate("file://"+page))
	}
	if err == nil {
		look.Height, err = chromedp.Run(tab, chromedp.Evaluate[int64]("document.documentElement.scrollHeight"))
	}
	if err == nil {
		err = look.Set(tab)
	}
	if err == nil {
		png, err = chromedp.Run(tab, chromedp.CaptureScreenshot())
	}
	if err != nil {
		return fmt.Errorf("draw %s: %w", page, err)
	}
	return os.WriteFile(file, png, 0o644)
}
