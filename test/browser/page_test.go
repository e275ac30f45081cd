package browser

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/chromedp/chromedp"
)

const chinese = "zh-CN"

// check checks a tab's page: no findings of axe-core, everything fits, and the language is the requested one.
func (x *tab) check(what string) {
	x.t.Helper()
	x.legible(what)
	accessible(x.t, x, x.seen(what))
}

func (x *tab) seen(what string) string {
	return fmt.Sprintf("%s at %d, dark %t, in %q", what, x.look.Width, x.look.Dark, x.look.Language)
}

func (x *tab) legible(what string) {
	x.t.Helper()
	what = fmt.Sprintf("%s at %d, dark %t, in %q", what, x.look.Width, x.look.Dark, x.look.Language)
	// A phone widens its window to content that does not fit, so innerWidth proves nothing.
	if wide := eval[int](x, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); wide > 0 {
		x.t.Errorf("%s: %d pixels do not fit", what, wide)
	}
	if got, want := eval[string](x, "document.documentElement.lang"), cmp.Or(x.look.Language, "en"); got != want {
		x.t.Errorf("%s: the page is in %q", what, got)
	}
	for about, script := range map[string]string{"text does not fit into": cut, "words broken in": broken, "not in its language:": foreign} {
		if found := eval[[]string](x, script); len(found) > 0 {
			x.t.Errorf("%s: %s\n%s", what, about, strings.Join(found, "\n"))
		}
	}
}

func (x *tab) again(what string) {
	x.t.Helper()
	was, here := x.look, chromedp.Navigate(eval[string](x, "location.href"))
	x.check(what)
	for i, l := range []Look{phone, day} {
		l.Language = chinese
		x.set(l)
		if i == 0 {
			x.do(here)
			x.open()
		}
		x.check(what)
	}
	x.set(was)
	x.do(here)
}

func (x *tab) open() {
	x.t.Helper()
	eval[bool](x, `document.querySelectorAll("details").forEach(d => d.open = true), true`)
}

const cut = `[...document.querySelectorAll("body *")].filter(e => {
	const s = getComputedStyle(e);
	return e.clientWidth > 1 && s.textOverflow !== "ellipsis" && (!/auto|scroll/.test(s.overflowX) && e.scrollWidth > e.clientWidth + 1 ||
		/hidden|clip/.test(s.overflowY) && e.scrollHeight > e.clientHeight + 1);
}).map(e => e.outerHTML.slice(0, 200))`

const broken = `[...document.querySelectorAll("button")].filter(b => [...b.childNodes].some(n => {
	if (n.nodeType !== Node.TEXT_NODE || /\S\s+\S/.test(n.data)) return false;
	const r = document.createRange();
	r.selectNodeContents(n);
	return new Set([...r.getClientRects()].map(c => Math.round(c.top))).size > 1;
})).map(b => b.outerHTML.slice(0, 200))`

// foreign finds text in a wrong language. Exempt are IDs and names, code and texts of others, which the page marks, and the end
// of a command where Chinese continues, but not single words of our own. Chinese characters and full-width punctuation need no
// space between them.
const foreign = `(() => {
	const found = [], han = /\p{Script=Han}/u;
	const commands = /\b(kubectl|aliyun|lbremedy (approve|breaker|console|doctor|lb|plan|reject|run|show|undo))\b[\x20-\x7e]*/g;
	const sentence = /(?<![\w\/.:=-])[a-z'’]+[,;:]? [a-z'’]+[,;:.]? [a-z'’]+(?![\w\/:=-])/i, phrase = /^[a-z'’]+( [a-z'’]+)+[.:]?$/i;
	const words = "absent|breaker|budget|case|class|failed|finding|fixed|ignored|high|low|medium|needs-action|needs-approval|nothing|planned|plan|" +
		"recovered|rejected|steps?|superseded|synced|undone|undo|unknown|unsettled|waiting|writing";
	const ours = new RegExp("(?<![\\w/.:=-])(" + words + ")(?![\\w/:=-])");
	const spaced = /[\p{Script=Han}，。；：！？] +\p{Script=Han}/u, behind = /[，。；：！？] +\p{Script=Han}/u;
	const tell = (e, text) => {
		text = text.trim();
		if (e.closest("code, pre, textarea, script, style, [lang]:not(html)")) return;
		const own = text.replace(commands, "").trim();
		if (document.documentElement.lang === "en" ? han.test(text) : spaced.test(text) || [sentence, phrase, ours].some((r) => r.test(own))) found.push(text);
	};
	const walk = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_TEXT);
	while (walk.nextNode()) tell(walk.currentNode.parentElement, walk.currentNode.data);
	if (document.documentElement.lang !== "en")
		for (const e of document.querySelectorAll("p, h1, h2, summary, dd, li, label, td"))
			if (!e.querySelector("[lang]") && behind.test(e.innerText)) found.push(e.innerText);
	for (const e of document.querySelectorAll("*"))
		for (const a of e.attributes) if (/^(aria-label|title|alt|data-(?!version|state|copy$|every).*)$/.test(a.name)) tell(e, a.value);
	return [...new Set(found)];
})()`
