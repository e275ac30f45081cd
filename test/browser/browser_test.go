package browser

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	permissions "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

func look(t testing.TB, kind string) (*Browser, *World) {
	t.Helper()
	b, end, err := Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	w, err := Start(t.Context(), kind)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return b, w
}

type tab struct {
	context.Context
	t    testing.TB
	look Look

	mu    sync.Mutex
	asked []string // requested URLs
	wrong []string // errors of the page's script or Content-Security-Policy
}

func open(t testing.TB, b *Browser, l Look, of ...chromedp.ContextOption) *tab {
	t.Helper()
	x := &tab{t: t}
	ctx, end, err := b.Tab(func(url string) {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.asked = append(x.asked, url)
	}, of...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(end)
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(cancel)
	x.Context = ctx
	complain := func(text string) {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.wrong = append(x.wrong, text)
	}
	err = chromedp.Listen(ctx, func(e any) {
		switch e := e.(type) {
		case *runtime.EventExceptionThrown:
			complain(fmt.Sprint(e.ExceptionDetails))
		case *runtime.EventConsoleAPICalled:
			complain(fmt.Sprint(e.Type, e.Args))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	x.set(l)
	return x
}

func (x *tab) set(l Look) {
	x.t.Helper()
	if err := l.Set(x.Context); err != nil {
		x.t.Fatal(err)
	}
	x.look = l
}

func (x *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	x.t.Helper()
	if err := chromedp.Do(x.Context, steps...); err != nil {
		x.t.Fatal(err)
	}
}

func (x *tab) has(what chromedp.CSS) {
	x.t.Helper()
	ctx, cancel := context.WithTimeout(x.Context, 30*time.Second)
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.WaitVisible(what)); err != nil {
		x.t.Fatalf("the page has no %s: %v: %s", what, err, eval[string](x, "location.href + document.body.innerText"))
	}
}

func eval[T any](x *tab, expression string) T {
	x.t.Helper()
	v, err := chromedp.Run(x.Context, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		x.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

func (x *tab) sees(text string) {
	x.t.Helper()
	if _, err := chromedp.Run(x.Context, chromedp.Poll[bool](fmt.Sprintf("document.body.innerText.includes(%q)", text))); err != nil {
		x.t.Fatalf("the page does not say %q: %v: %s", text, err, eval[string](x, "document.body.innerText"))
	}
}

// until calls do, waits for the text on the page, and returns the milliseconds by the page's clock.
func (x *tab) until(text string, do func(text string)) float64 {
	x.t.Helper()
	eval[bool](x, fmt.Sprintf(`window.seen = 0, new MutationObserver((_, o) => {
		if (!document.body.innerText.includes(%q)) return;
		window.seen = performance.timeOrigin + performance.now();
		o.disconnect();
	}).observe(document.body, {childList: true, subtree: true}), true`, text))
	began := time.Now()
	do(text)
	if _, err := chromedp.Run(x.Context, chromedp.Poll[bool]("window.seen > 0")); err != nil {
		x.t.Fatalf("the page does not say %q: %v: %s", text, err, eval[string](x, "document.body.innerText"))
	}
	return eval[float64](x, "window.seen") - float64(began.UnixMicro())/1000
}

func (x *tab) quiet(w *World) {
	x.t.Helper()
	x.mu.Lock()
	defer x.mu.Unlock()
	base, _, _ := strings.Cut(w.Address, "/?")
	for _, url := range x.asked {
		if url != "about:blank" && !strings.HasPrefix(url, base+"/") {
			x.t.Errorf("the page asks for %s", url)
		}
	}
	if len(x.wrong) > 0 {
		x.t.Errorf("the page complains: %s", x.wrong)
	}
}

var (
	day   = Look{Width: 1280, Height: 900}
	night = Look{Width: 1280, Height: 900, Dark: true}
	phone = Look{Width: 360, Height: 740}
	half  = Look{Width: 500, Height: 900} // half a screen
)

func order(t testing.TB, w *World, what string) string {
	t.Helper()
	answer, err := w.Order(t.Context(), what)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func css(s string) chromedp.CSS { return chromedp.CSS(s) }

func TestConsole(t *testing.T) {
	b, w := look(t, "")

	t.Run("pages", func(t *testing.T) {
		pages := map[string][]string{
			"/":                        {"Now", "need approval", "fixed", "Something waits for a person.", "fix: plans up to low risk are applied", "shop/mail"},
			"/questions":               {"Questions", "The controller can't find the load balancer", "needs-approval"},
			"/cases":                   {"Cases", "shop/cart", "vswitch-ip-exhausted"},
			"/cases?q=cart":            {"1 to 1 of 1"},
			"/cases?sort=service":      {"▲"},
			"/cases?sort=impact&down=": {"▼"},
			"/doctor":                  {"Doctor", "lb-gone"},
			"/policy":                  {"Policy", " of ConfigMap lbremedy/lbremedy-policy, in force since ", "namespaces pay-*"},
			"/classes":                 {"Classes", "vswitch-ip-exhausted", "asks only"},
			"/classes/tag-missing":     {"The controller can't find the load balancer", "slb:TagResources"},
			"/answers?verdict=approve": {"Approve", "No plan was chosen."},
			"/nowhere":                 {"There is no such page"},
		}
		in := func(language string, looks ...Look) {
			for i := range looks {
				looks[i].Language = language
			}
			x := open(t, b, looks[0])
			for path, wants := range pages {
				x.do(chromedp.Navigate(w.At(path)), Live())
				for _, text := range wants {
					if language == "" {
						x.sees(text)
					}
				}
				code := eval[int](x, `performance.getEntriesByType("navigation")[0].responseStatus`)
				if code != 200 && path != "/nowhere" {
					t.Errorf("%s answers %d", path, code)
				}
				x.open()
				for _, l := range looks {
					x.set(l)
					x.check(path)
				}
			}
			// These texts have the same form, and axe-core has checked one.
			x.set(looks[len(looks)-1])
			x.do(chromedp.Navigate(w.At("/classes")))
			classes := eval[[]string](x, `[...document.querySelectorAll("#classes th a")].map(a => a.getAttribute("href"))`)
			if len(classes) < 20 {
				t.Errorf("the page of classes has %d", len(classes))
			}
			for _, class := range classes {
				x.do(chromedp.Navigate(w.At(class)))
				x.legible(class)
			}
			x.quiet(w)
		}
		in("", day, night, phone, half)
		in(chinese, day, phone)
	})

	t.Run("a case", func(t *testing.T) {
		x := open(t, b, day)
		x.do(chromedp.Navigate(w.At("/cases?q=cart")), Live(), chromedp.Click(css(".rows a")), chromedp.WaitVisible(css("#course")))
		for _, text := range []string{
			"shop/cart", "The vSwitch is full: vsw-h-full", "Fix mode applies plans up to low risk.", "1 of 1 step done", "step 1 of 1 applied",
			"undo: annotate vswitch-id=vsw-h-full", "lbremedy undo",
		} {
			x.sees(text)
		}
		x.do(chromedp.Click(css("#reads-d summary")))
		x.sees("get Service shop/cart")
		x.sees("vpc:DescribeVSwitches")
		x.sees(`"AvailableIpAddressCount":0`)
		got := eval[string](x, `document.querySelector(".change").textContent`)
		if !strings.Contains(got, "before: vsw-h-full") || !strings.Contains(got, "after: vsw-h-small") {
			t.Errorf("the plan as a difference: %q", got)
		}
		if n := eval[int](x, `document.querySelectorAll("#course li").length`); n != 4 {
			t.Errorf("the timeline has %d entries, want the failure, the plan, its step and the end", n)
		}
		if got := eval[string](x, `document.querySelector("#course li:last-child").className`); got != "good" {
			t.Errorf("the end of a case that is fixed looks %q", got)
		}
		x.again("a case")
		x.quiet(w)
	})

	// Questions come before all numbers, and zeros are muted. The head of a case has the facts for a decision.
	t.Run("first", func(t *testing.T) {
		x := open(t, b, day)
		x.do(chromedp.Navigate(w.At("/")), Live())
		order := eval[[]string](x, `[...document.querySelectorAll("main > section")].map(s => s.id)`)
		if want := []string{"alarms", "waits", "counts", "lately", "clusters"}; !slices.Equal(order, want) {
			t.Errorf("the parts are %q, want %q", order, want)
		}
		muted := `[...document.querySelectorAll(".tiles li")].filter(e => e.classList.contains("zero") !== /^[0–]/.test(e.innerText) ||
			(getComputedStyle(e.firstElementChild).borderStyle === "dashed") !== e.classList.contains("zero")).map(e => e.innerText)`
		if got := eval[[]string](x, muted); len(got) > 0 {
			t.Errorf("muted, or not, are %q", got)
		}
		if n := eval[int](x, `document.querySelectorAll(".tiles .zero").length`); n == 0 {
			t.Error("no number is zero")
		}
		x.do(chromedp.Navigate(w.At("/cases?q=shop/images")), Live(), chromedp.Click(css(".rows a")), chromedp.WaitVisible(css("#ask")))
		head := eval[string](x, `document.querySelector("#head").innerText`)
		for _, want := range []string{"shop/images", "needs-approval", "no traffic", "high risk"} {
			if !strings.Contains(head, want) {
				t.Errorf("the head lacks %q: %s", want, head)
			}
		}
		beside := `(b => document.querySelectorAll("button.primary").length === 1 && b.top < document.querySelector("#result").getBoundingClientRect().bottom &&
			b.left > document.querySelector("h1").getBoundingClientRect().left + 400)(document.querySelector("#ask button.primary").getBoundingClientRect())`
		if !eval[bool](x, beside) {
			t.Error("no single primary button is beside the title")
		}
		x.do(chromedp.Click(css("#ask button[value=approve]")), chromedp.WaitVisible(css("#sure")))
		for _, want := range []string{"Impact:", "no traffic", "cannot be undone", "203.0.113."} {
			x.sees(want)
		}
		x.quiet(w)
	})

	// Each command has a box with a button that copies it unchanged, and no word is broken.
	t.Run("commands", func(t *testing.T) {
		x := open(t, b, day)
		for _, name := range []string{"clipboard-read", "clipboard-write"} {
			if _, err := chromedp.Call(x.Context, permissions.SetPermission, permissions.SetPermissionParams{
				Permission: &permissions.PermissionDescriptor{Name: name}, Setting: permissions.PermissionSettingGranted,
			}); err != nil {
				t.Fatal(err)
			}
		}
		x.do(chromedp.Navigate(w.At("/cases?q=shop/mail")), Live(), chromedp.Click(css(".rows a")), chromedp.WaitVisible(css("#course")))
		commands := eval[[]string](x, `[...document.querySelectorAll(".command code")].map(c => c.textContent)`)
		if got := eval[[]string](x, `[...document.querySelectorAll(".command .copy")].map(c => c.dataset.copy)`); len(got) < 4 || !slices.Equal(got, commands) {
			t.Errorf("the buttons copy %q, and the commands are %q", got, commands)
		}
		sentences := `[...document.querySelectorAll(".lines, .finding")].flatMap(e => [...e.childNodes]).filter(n => n.nodeType === Node.TEXT_NODE).
			map(n => n.data).join("")`
		if got := eval[string](x, sentences); strings.Contains(got, "kubectl") || strings.Contains(got, "lbremedy ") {
			t.Errorf("a command is inside a sentence: %s", got)
		}
		broken := `[...document.querySelectorAll(".command span:not(.hidden)")].filter(w => w.offsetHeight > 30).map(w => w.textContent)`
		if got := eval[[]string](x, broken); len(got) > 0 {
			t.Errorf("these words are broken: %q", got)
		}
		x.do(chromedp.Click(css(".command .copy")))
		x.has(".copy.done")
		if got := eval[string](x, `navigator.clipboard.readText()`); got != commands[0] {
			t.Errorf("copied is %q, not %q", got, commands[0])
		}
		x.quiet(w)
	})

	// In a narrow window each case is a card with all fields of its row, and no column is cut off.
	t.Run("cards", func(t *testing.T) {
		x := open(t, b, half)
		for _, width := range []int64{400, 500} {
			x.set(Look{Width: width, Height: 900})
			x.do(chromedp.Navigate(w.At("/cases")), Live())
			got := eval[[]string](x, `[...document.querySelectorAll(".rows :is(th, td), .rows a")].filter(e => e.textContent && !e.checkVisibility() ||
				e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== "inline").map(e => e.outerHTML)`)
			if len(got) > 0 {
				t.Errorf("at %d these are cut off: %q", width, got)
			}
			lines := `new Set([...document.querySelector(".rows tr").children].map(e => Math.round(e.getBoundingClientRect().top))).size`
			if got := eval[int](x, lines); got < 2 {
				t.Errorf("at %d a case is one line, and no card", width)
			}
		}
		x.quiet(w)
	})

	// The doctor's findings are grouped by Service, the worst first, with their open case and a fix's changes as a diff.
	t.Run("doctor", func(t *testing.T) {
		x := open(t, b, day)
		x.do(chromedp.Navigate(w.At("/doctor")), Live(), chromedp.WaitVisible(css("#findings")))
		about := eval[[]string](x, `[...document.querySelectorAll("#findings > details > summary strong")].map(e => e.textContent)`)
		if slices.Sort(about); len(about) == 0 || len(about) != len(slices.Compact(about)) {
			t.Errorf("findings are about %q: each has to be there once", about)
		}
		images := `[...document.querySelectorAll("#findings > details")].find(d => d.textContent.includes("shop/images"))`
		got := eval[string](x, images+".innerText")
		for _, want := range []string{
			"Its case", "needs-approval", "lbremedy has a plan for this:", "lbremedy doctor --fix lb-gone shop/images", "cannot be undone",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("%q is not in %s", want, got)
			}
		}
		got = eval[string](x, images+`.querySelector(".change").textContent`)
		if !strings.Contains(got, "before: 203.0.113.") || !strings.Contains(got, "after: nothing") {
			t.Errorf("the plan as a difference: %q", got)
		}
		x.do(chromedp.KeyEvent("j"))
		if got := eval[string](x, "document.activeElement.tagName"); got != "SUMMARY" {
			t.Errorf("j leads to %s, not to a finding", got)
		}
		x.quiet(w)
	})

	// A case is one row of a table, headers sort, single letters navigate, and times are in the browser's time zone.
	t.Run("on call", func(t *testing.T) {
		x := open(t, b, day)
		if _, err := chromedp.Call(x.Context, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Shanghai"}); err != nil {
			t.Fatal(err)
		}
		x.do(chromedp.Navigate(w.At("/cases")), Live())
		if tall := eval[int](x, `[...document.querySelectorAll(".rows tr")].filter(r => r.offsetHeight > 40).length`); tall > 0 {
			t.Errorf("%d cases take more than a line", tall)
		}
		services := `[...document.querySelectorAll(".rows th a")].map(a => a.textContent)`
		x.do(chromedp.Click(css("thead a")), chromedp.WaitVisible(css("[aria-sort=ascending]")))
		up := eval[[]string](x, services)
		x.do(chromedp.Click(css("thead a")), chromedp.WaitVisible(css("[aria-sort=descending]")))
		down := eval[[]string](x, services)
		if slices.Reverse(down); len(up) < 5 || !slices.Equal(up, down) || !slices.IsSorted(up) {
			t.Errorf("sorted they are %q, and the other way round %q", up, down)
		}
		x.do(chromedp.KeyEvent("j"), chromedp.KeyEvent("j"))
		if got, want := eval[string](x, "document.activeElement.textContent"), eval[[]string](x, services)[1]; got != want {
			t.Errorf("j j leads to %q, not %q", got, want)
		}
		x.do(chromedp.KeyEvent("?"), chromedp.WaitVisible(css("#keys")))
		x.again("the list of keys")
		x.do(chromedp.Navigate(w.At("/questions")), Live(), chromedp.KeyEvent("/"), chromedp.WaitVisible(css("input[type=search]:focus")))
		x.do(chromedp.Navigate(w.At("/cases?q=cart")), Live(), chromedp.Click(css(".rows a")), chromedp.WaitVisible(css("#course")))
		got := eval[string](x, `(t => t.textContent + " " + t.title)(document.querySelector("#course time"))`)
		if !strings.Contains(got, "GMT+8 ") || !strings.HasSuffix(got, " UTC") {
			t.Errorf("a time is %q, not one of Shanghai", got)
		}
		for language, want := range map[string]string{"": ".alibabacloud.com/vpc/", chinese: ".aliyun.com/vpc/"} {
			l := day
			l.Language = language
			x.set(l)
			x.do(chromedp.Navigate(eval[string](x, "location.href")))
			if to := eval[string](x, `document.querySelector("main a[href*=vsw-]").href`); !strings.Contains(to, want) || !strings.Contains(to, "/switches/vsw-") {
				t.Errorf("the vSwitch leads to %s", to)
			}
		}
		x.quiet(w)
	})

	t.Run("keys alone", func(t *testing.T) {
		x := open(t, b, day)
		x.do(chromedp.Navigate(w.At("/questions")), Live(), chromedp.KeyEvent("\t"))
		if got := eval[string](x, "document.activeElement.textContent"); got != "Skip to the content" {
			t.Errorf("the first stop is %q", got)
		}
		x.do(chromedp.KeyEvent("\r"))
		if got := eval[string](x, "document.activeElement.id"); got != "main" {
			t.Errorf("the skip link leads to %q", got)
		}
		x.do(chromedp.KeyEvent("\t"))
		if got := eval[string](x, `document.activeElement.tagName + getComputedStyle(document.activeElement).outlineStyle`); got != "SUMMARYsolid" {
			t.Errorf("the first question has the focus, and one sees it: %q", got)
		}
		x.do(chromedp.KeyEvent("\r"), chromedp.WaitVisible(css(".incident details[open] .list")))
		x.quiet(w)
	})

	// Texts of others are never markup.
	t.Run("hostile texts", func(t *testing.T) {
		hostile := `</title><script>document.title="owned"</script><img src=x onerror=alert(1)><svg/onload=alert(2)>"'><a href="javascript:alert(3)">{{.}}</a>`
		order(t, w, "say "+hostile)
		x := open(t, b, day)
		for _, path := range []string{"/", "/questions", "/cases?q=said", "/cases?q=" + "%3Cscript%3Ealert(4)%3C/script%3E", "/policy?cluster=%3Cb%3E"} {
			x.do(chromedp.Navigate(w.At(path)), Live())
			if path != "/" && !strings.Contains(path, "%3") {
				x.sees("shop/said")
				x.sees(`<script>document.title="owned"</script>`)
			}
		}
		x.do(chromedp.Navigate(w.At("/cases?q=said")), Live(), chromedp.Click(css(".rows a")), chromedp.WaitVisible(css("#course")))
		x.sees(hostile)
		if got := eval[int](x, `document.querySelectorAll("main script, main img, main svg, main a[href^=javascript]").length`); got != 0 {
			t.Errorf("%d elements came with a text", got)
		}
		if got := eval[string](x, "document.title"); strings.Contains(got, "owned") && !strings.Contains(got, "<") {
			t.Errorf("the title is %q", got)
		}
		x.quiet(w)
	})

	// Open elements and the scroll position survive changes of a page.
	t.Run("live", func(t *testing.T) {
		order(t, w, "say It waits.")
		x := open(t, b, day)
		x.do(chromedp.Navigate(w.At("/")), Live())
		x.sees("It waits.")
		x.do(chromedp.Click(css("#waits details summary")), chromedp.WaitVisible(css("#waits details[open]")))
		at := `document.activeElement.closest("details").id`
		before := eval[string](x, at)
		took := x.until("It works again.", func(text string) { order(t, w, "settle "+text) })
		t.Logf("a record is on the page after %.0f ms", took)
		if took > 1000 {
			t.Errorf("a record is on the page after %.0f ms only", took)
		}
		if got := eval[string](x, at); got != before {
			t.Errorf("the focus went from %q to %q", before, got)
		}
		if got := eval[int](x, `document.querySelectorAll("#waits details[open]").length`); got != 1 {
			t.Errorf("%d questions are open, want the one that was", got)
		}
		x.quiet(w)
	})

	// Without NATS the console says so, and shows the data that it has.
	t.Run("NATS away", func(t *testing.T) {
		x := open(t, b, day)
		x.do(chromedp.Navigate(w.At("/questions")), Live())
		order(t, w, "away")
		x.sees("NATS is not reached since")
		x.sees("The page shows what was read before.")
		x.sees("The controller can't find the load balancer")
		x.again("NATS away")
		x.do(chromedp.Navigate(w.At("/")), Live())
		x.sees("NATS is not reached since")
		x.sees("shop/cart")
		order(t, w, "back")
		x.do(chromedp.WaitNotPresent(css("#away")))
		order(t, w, "say It fails again.")
		x.sees("It fails again.")
		x.quiet(w)
	})

	// Plans are answered on the page of questions, one by one or all of one cause, and the result is shown.
	t.Run("answers", func(t *testing.T) {
		order(t, w, "work")
		x := open(t, b, day)
		x.do(chromedp.Navigate(w.At("/questions")), Live())
		about := func(service string) string {
			return eval[string](x, fmt.Sprintf(`[...document.querySelectorAll("#questions details")].find(d => d.textContent.includes(%q)).id`, service))
		}
		incident := css(fmt.Sprintf("[id=%q]", about("shop/dns")))
		x.do(chromedp.Click(incident+" summary"), chromedp.WaitVisible(incident+" [data-every]"))
		x.do(chromedp.Click(incident + " input[name=plan]"))
		order(t, w, "say It fails while somebody chooses.")
		x.sees("It fails while somebody chooses.")
		if got := eval[int](x, `document.querySelectorAll("input[name=plan]:checked").length`); got != 1 {
			t.Errorf("%d plans are chosen after the page has changed, want the one that was", got)
		}
		x.do(chromedp.Click(incident + " [data-every]"))
		if got := eval[int](x, `document.querySelectorAll("input[name=plan]:checked").length`); got != 2 {
			t.Errorf("%d plans are chosen, want both", got)
		}
		x.do(chromedp.Click(incident+" button[value=approve]"), chromedp.WaitVisible(css("#sure")))
		for _, text := range []string{
			"shop/dns", "shop/metrics", "slb:CreateLoadBalancerUDPListener", "To undo it afterwards:", "lbremedy undo ", "Approve 2 plans",
		} {
			x.sees(text)
		}
		x.again("plans to approve")
		x.do(chromedp.SendKeys(css("#comment"), "CHG-1 <i>\r"))
		if got := eval[int](x, `document.querySelectorAll("#sure").length`); got != 1 {
			t.Error("the key Enter in the comment approves")
		}
		x.do(chromedp.Click(css("#sure")))
		x.has("#done")
		x.sees("approved it at")
		x.sees(": CHG-1 <i>.")
		if got := eval[string](x, "document.body.innerText"); strings.Count(got, "approved it at") != 2 {
			t.Errorf("both are answered: %s", got)
		}
		x.again("plans that are approved")

		answer := func(service, verdict string, comes ...string) {
			x.do(chromedp.Navigate(w.At("/cases?result=needs-approval&q="+service)), Live(), chromedp.Click(css(".rows a")))
			x.has("#ask")
			x.again("a case that asks")
			x.do(chromedp.Click(css("#ask button[value=" + verdict + "]")))
			x.has("#sure")
			x.sees("Impact:")
			x.sees("undo:")
			x.do(chromedp.Click(css("#sure")))
			x.has("#done")
			for _, text := range comes {
				x.sees(text)
			}
		}
		answer("shop/images", "approve", "approved it at", "fixed")
		x.do(chromedp.Navigate(w.At("/cases?q=shop/images")), Live(), chromedp.Click(css(".rows a")), chromedp.WaitVisible(css("#course")))
		if got := eval[[]string](x, `[...document.querySelectorAll("#course li")].map(e => e.innerText)`); !slices.ContainsFunc(got, func(line string) bool {
			return strings.Contains(line, "approved the plan")
		}) || strings.Count(got[len(got)-1], "fixed") != 1 {
			t.Errorf("the timeline is %q", got)
		}
		answer("shop/web", "reject", "rejected it at", "has no plan that waits for an approval")
		x.do(chromedp.Navigate(w.At("/cases?q=shop/web")), Live())
		x.sees("rejected")
		// A person can revise a rejection: the later approval needs another second.
		if _, err := chromedp.Run(x.Context, chromedp.Poll[bool](fmt.Sprintf("Date.now() > %d", time.Now().Add(time.Second).UnixMilli()))); err != nil {
			t.Fatal(err)
		}
		x.do(chromedp.Click(css(".rows a")))
		x.has("#ask")
		x.sees("You have rejected this plan.")
		x.again("a case whose plan one has rejected")
		x.do(chromedp.Click(css("#ask button[value=approve]")))
		x.has("#sure")
		x.do(chromedp.Click(css("#sure")))
		x.has("#done")
		x.sees("approved it at")
		x.sees("fixed")
		x.quiet(w)
	})

	// Two people look at one plan. Each sees the other's answer; after a logout, nothing more is shown.
	t.Run("a team", func(t *testing.T) {
		team := &World{Address: order(t, w, "team")}
		enter := func(name string) *tab {
			x := open(t, b, phone, chromedp.WithNewBrowserContext())
			x.do(chromedp.Navigate(team.Address), chromedp.WaitVisible(css("#token")))
			x.again("where one logs in")
			x.do(chromedp.SetValue(css("#token"), "nonsense"), chromedp.Click(css(".login button")), chromedp.WaitVisible(css("[role=alert]")))
			x.sees("The API server does not accept this token.")
			x.do(chromedp.SetValue(css("#token"), order(t, w, "account "+name)), chromedp.Click(css(".login button")), Live())
			x.sees("system:serviceaccount:shop:" + name)
			x.do(chromedp.Navigate(team.Address+"cases?q=shop/api"), Live(), chromedp.Click(css(".rows a")), chromedp.WaitVisible(css("#ask button[value=approve]")))
			x.check("a case that asks somebody")
			x.do(chromedp.Click(css("#ask button[value=approve]")), chromedp.WaitVisible(css("#sure")))
			return x
		}
		ann, bob := enter("ann"), enter("bob")
		ann.do(chromedp.Click(css("#sure")))
		ann.has("#done")
		ann.sees("system:serviceaccount:shop:ann approved it at")
		bob.has("#done")
		bob.sees("system:serviceaccount:shop:ann approved it at")
		bob.sees("has no plan that waits for an approval")
		bob.sees("fixed")
		bob.again("a plan that somebody else has approved")
		// The page may unload as soon as the console has logged it out, so do not wait for the answer.
		eval[bool](bob, `fetch("/logout", {method: "POST", keepalive: true}) instanceof Promise`)
		order(t, w, "say It fails behind a login.")
		bob.has("#token")
		bob.sees("Log in")
		if text := eval[string](bob, "document.body.innerText"); strings.Contains(text, "shop/") {
			t.Errorf("the page tells all the same: %s", text)
		}
	})

	t.Run("no key", func(t *testing.T) {
		x := open(t, b, day)
		base, _, _ := strings.Cut(w.Address, "/?")
		// Another browser has no cookie; localhost is a different origin than 127.0.0.1.
		x.do(chromedp.Navigate(strings.Replace(base, "127.0.0.1", "localhost", 1) + "/questions"))
		x.sees("This address has no key")
		if text := eval[string](x, "document.body.innerText"); strings.Contains(text, "load balancer") {
			t.Errorf("the page tells all the same: %s", text)
		}
		x.again("no key")
	})
}

// BenchmarkBig measures each page with 5,000 Services with a case each: the maximum time to the first byte and until it is shown,
// the time until each of 20 new records appears, and the console's memory. Building the cluster takes minutes.
func BenchmarkBig(b *testing.B) {
	chromium, w := look(b, "big")
	x := open(b, chromium, day)
	x.do(chromedp.Navigate(w.At("/doctor")), Live(), chromedp.WaitVisible(css("#findings")))
	var first, shown float64
	var live []float64
	said := 0
	for b.Loop() {
		for path, wants := range map[string]string{
			"/": "Now", "/questions": "1 to 1 of 1", "/cases": "1 to 100 of 500", "/cases?q=ballast-4321": "1 to 1 of 1", "/cases?sort=impact": "1 to 100 of 500",
			"/doctor": "30 checks looked at 5000 Services", "/policy": "In force", "/classes": "Classes",
		} {
			began := time.Now()
			x.do(chromedp.Navigate(w.At(path)))
			x.sees(wants)
			took := time.Since(began).Seconds() * 1000
			byte1 := eval[float64](x, `performance.getEntriesByType("navigation")[0].responseStart - performance.getEntriesByType("navigation")[0].requestStart`)
			b.Logf("%s: first byte after %.1f ms, shown after %.0f ms", path, byte1, took)
			first, shown = max(first, byte1), max(shown, took)
		}
		x.do(chromedp.Navigate(w.At("/")), Live())
		for range 20 {
			said++
			live = append(live, x.until(fmt.Sprintf("It fails for the %dth time.", said), func(text string) { order(b, w, "say "+text) }))
		}
		order(b, w, "settle It works again.")
	}
	b.ReportMetric(first, "first-byte-ms")
	b.ReportMetric(shown, "shown-ms")
	slices.Sort(live)
	b.Logf("from the order to publish a record until it is on the page, in ms: %.0f", live)
	b.ReportMetric(live[len(live)/2], "live-p50-ms")
	b.ReportMetric(live[len(live)-1], "live-max-ms")
	resident, err := strconv.ParseFloat(order(b, w, "memory"), 64)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(resident, "MiB")
	x.quiet(w)
}

// TestMain omits the tests if Chromium is not installed, except in CI.
func TestMain(m *testing.M) {
	if _, err := Find(); err != nil && os.Getenv("CI") == "" {
		fmt.Println(err)
		os.Exit(0)
	}
	os.Setenv("NO_PROXY", "127.0.0.1,localhost") // a proxy cannot reach this machine
	os.Exit(m.Run())
}
