// Draw takes the pictures of the console and of chat cards for "make capture". With a folder it writes the console's pictures there; -every
// takes each page on a computer and a phone, in each language. With an HTML page and a file it writes a picture of the page.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/lbremedy/lbremedy/test/browser"
)

type picture struct {
	name, path string
	look       browser.Look
	before     []chromedp.Action[chromedp.Void]
}

const chinese = "zh-CN"

var (
	opened = []chromedp.Action[chromedp.Void]{chromedp.Click(chromedp.CSS(".incident summary"))}
	ofCase = []chromedp.Action[chromedp.Void]{chromedp.Click(chromedp.CSS(".rows a")), chromedp.WaitVisible(chromedp.CSS("#course")), browser.Live()}
	answer = append(opened[:1:1], chromedp.Click(chromedp.CSS("[data-every]")),
		chromedp.Click(chromedp.CSS(".incident button[value=approve]")), chromedp.WaitVisible(chromedp.CSS("#sure")))
)

const wide = 1280

var pictures = []picture{
	{name: "case", path: "/cases?q=dns", look: browser.Look{Width: wide, Height: 724}, before: ofCase},
	{name: "case.zh", path: "/cases?q=dns", look: browser.Look{Width: wide, Height: 702, Language: chinese}, before: ofCase},
	{name: "phone", path: "/cases?q=dns", look: browser.Look{Width: 400, Height: 800, Dark: true}, before: ofCase},
	{name: "now", path: "/", look: browser.Look{Width: wide, Height: 900}},
	{name: "questions", path: "/questions", look: browser.Look{Width: wide, Height: 736, Dark: true}, before: opened},
	{name: "answer", path: "/questions", look: browser.Look{Width: wide, Height: 760}, before: answer},
}

var pages = []picture{
	{name: "now", path: "/"}, {name: "questions", path: "/questions", before: opened}, {name: "cases", path: "/cases"},
	{name: "case-fixed", path: "/cases?q=cart", before: ofCase}, {name: "case-asks", path: "/cases?q=dns", before: ofCase},
	{name: "case-mail", path: "/cases?q=mail", before: ofCase}, {name: "answer", path: "/questions", before: answer},
	{name: "doctor", path: "/doctor", before: []chromedp.Action[chromedp.Void]{chromedp.WaitVisible(chromedp.CSS("#findings"))}},
	{name: "policy", path: "/policy"}, {name: "classes", path: "/classes"}, {name: "class", path: "/classes/tag-missing"},
}

func every() []picture {
	var all []picture
	for _, p := range pages {
		for _, width := range []int64{wide, 400} {
			for _, language := range []string{"en", chinese} {
				p := p
				p.look = browser.Look{Width: width, Language: language}
				p.name = fmt.Sprintf("%s.%d.%s", p.name, width, language)
				all = append(all, p)
			}
		}
	}
	return all
}

func main() {
	all := flag.Bool("every", false, "draw each page, as wide as a computer and a phone, in each language")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	var err error
	switch {
	case flag.NArg() == 1 && *all:
		err = draw(ctx, flag.Arg(0), every())
	case flag.NArg() == 1:
		err = draw(ctx, flag.Arg(0), pictures)
	case flag.NArg() == 2 && !*all:
		err = drawPage(ctx, flag.Arg(0), flag.Arg(1))
	default:
		err = errors.New("usage: draw [-every] FOLDER, or draw PAGE FILE")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "draw:", err)
		os.Exit(1)
	}
}

// legible returns an error if Chinese characters would be drawn as boxes.
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

func draw(ctx context.Context, folder string, pictures []picture) error {
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
		png, err := take(tab, p.look, append([]chromedp.Action[chromedp.Void]{chromedp.Navigate(w.At(p.path)), browser.Live()}, p.before...)...)
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

func take(tab context.Context, look browser.Look, actions ...chromedp.Action[chromedp.Void]) ([]byte, error) {
	whole := look.Height == 0
	look.Height = max(look.Height, 100)
	err := look.Set(tab)
	if err == nil {
		err = legible(tab)
	}
	if err == nil {
		err = chromedp.Do(tab, actions...)
	}
	if err == nil && whole {
		if look.Height, err = chromedp.Run(tab, chromedp.Evaluate[int64]("document.documentElement.scrollHeight")); err == nil {
			err = look.Set(tab)
		}
	}
	if err != nil {
		return nil, err
	}
	return chromedp.Run(tab, chromedp.CaptureScreenshot())
}

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
	png, err := take(tab, browser.Look{Width: 1000}, chromedp.Navigate("file://"+page))
	if err != nil {
		return fmt.Errorf("draw %s: %w", page, err)
	}
	return os.WriteFile(file, png, 0o644)
}
