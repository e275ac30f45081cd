package console

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/cli"
	"github.com/lbremedy/lbremedy/functions/cmd/lbremedy/mcp"
	"github.com/lbremedy/lbremedy/shared/command"
	"github.com/lbremedy/lbremedy/shared/doctor"
	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/regex"
	"github.com/lbremedy/lbremedy/shared/say"
)

//go:embed web
var web embed.FS

type server struct {
	p       *cli.Program
	url     *url.URL // address for browsers
	auth    authenticator
	pages   map[string]func() (map[string]*template.Template, error) // by language and name; parsed on first use of a language
	files   http.Handler
	index   *index
	reading *reading
	hub     *hub
	aliases map[string]string // display names of clusters, by ID
}

func newServer(p *cli.Program, at *url.URL, aliases map[string]string) (*server, error) {
	files, err := fs.Sub(web, "web")
	if err != nil {
		return nil, fmt.Errorf("read the pages of the console: %w", err)
	}
	h := newHub()
	s := &server{p: p, url: at, files: http.FileServerFS(files), hub: h, aliases: aliases}
	s.pages = map[string]func() (map[string]*template.Template, error){}
	s.index, s.reading = newIndex(p, h), newReading(p, h)
	for _, l := range []*say.Language{nil, cli.Tongue("zh")} {
		s.pages[l.Name()] = sync.OnceValues(func() (map[string]*template.Template, error) { return s.in(l, files) })
	}
	return s, nil
}

func (s *server) in(l *say.Language, files fs.FS) (map[string]*template.Template, error) {
	parse := func(t *template.Template, name string) (*template.Template, error) {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		page := say.Markup(string(text), l.Format)
		if l != nil { // full-width punctuation includes its own space
			page = afterWide().ReplaceAllString(page, "$1$2")
		}
		return t.Parse(page)
	}
	layout, err := parse(template.New("layout.html").Funcs(s.words(l)), "layout.html")
	if err != nil {
		return nil, err
	}
	names, err := fs.Glob(files, "*.html")
	if err != nil {
		return nil, err
	}
	pages := map[string]*template.Template{}
	for _, name := range names {
		if name == "layout.html" {
			continue
		}
		own, err := layout.Clone()
		if err == nil {
			own, err = parse(own, name)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		pages[strings.TrimSuffix(name, ".html")] = own
	}
	return pages, nil
}

// afterWide matches the space of an English template after full-width punctuation in Chinese.
var afterWide = regex.New(`([，。；：！？](?:</(?:strong|span)>)?) (\S)`)

// word marks a text that a template translates.
func word(english string) string { return english }

func (s *server) words(l *say.Language) template.FuncMap {
	p := s.p.Reads(http.Header{"Accept-Language": {l.Name()}})
	region := ""
	if s.p.Cluster != "" { // another cluster may be in another region
		region = s.p.Region
	}
	return template.FuncMap{
		"prose":    func(text any) template.HTML { return prose(fmt.Sprint(text), region, l) },
		"words":    func(command string) []string { return strings.Split(command, " ") },
		"segments": func(t say.Text) []say.Segment { return say.Segments(t.In(l)) },
		"steps":    func(r *event.Record) []stepRow { return stepsOf(p, r) },
		"fix":      func(f doctor.Finding) []stepRow { return stepsOf(p, &event.Record{Plan: event.Plan{Steps: f.Steps}}) },
		"plain":    func(rows []*summary) table { return table{heads(nil), rows} },
		"named":    func(cluster any) string { return cmp.Or(s.aliases[fmt.Sprint(cluster)], fmt.Sprint(cluster)) },
		"utc":      utc,
		"impact":   func(i event.Impact) sign { return impacts[i] },
		"risk":     func(risk string) sign { return risks[risk] },
		"final":    func() sign { return final },
		"clean":    func(v any) string { return command.Clean(fmt.Sprint(v)) },
		"ago":      s.p.Ago,
		"clock":    cli.Clock,
		"iso":      func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"short":    cli.Short,
		"count":    func(n int, what string) string { return say.Count(n, what).In(l) },
		"say":      l.Phrase,
		"twin":     l.Format,
		"note":     func(n note) string { return l.Phrase(n.Format, n.Args...) },
		"why":      func(err error) string { return errorText(l, err) },
		"text":     func(t say.Text) string { return t.In(l) },
		"tell":     func(r *event.Record) event.Record { return r.In(l) },
		"language": l.Name,
		"alone":    s.index.alone,
		"sign": func(status any) sign {
			known := signs[fmt.Sprint(status)]
			known.Word = cmp.Or(known.Word, fmt.Sprint(status))
			return known
		},
		"case": func(of any) string {
			c, _ := of.(*summary)
			switch of := of.(type) {
			case member:
				c = of.summary
			case *event.Record:
				c = summaryOf(of)
			}
			return "/cases/" + path.Join(c.Cluster, c.Service.UID, c.Class, c.Case)
		},
	}
}

// A sign shows a shape beside the word for a status: colour alone must not carry meaning.
type sign struct{ Tone, Shape, Word string }

var impacts = map[event.Impact]sign{
	event.NeverUp: {"bad", "✕", word("no address")}, event.Down: {"bad", "✕", word("no traffic")}, event.Partly: {"bad", "◐", word("some ports down")},
	event.Frozen: {"plain", "=", word("backends frozen")}, event.Unchecked: {"ask", "?", word("impact unknown")},
}

var risks = map[string]sign{
	"low": {"plain", "▁", word("low risk")}, "medium": {"ask", "▄", word("medium risk")}, "high": {"bad", "█", word("high risk")},
}

var final = sign{"bad", "⚠", word("cannot be undone")}

var signs = map[string]sign{
	string(event.Fixed): {"good", "✓", word("fixed")}, string(event.Synced): {"good", "✓", word("synced")},
	string(event.Recovered): {"good", "↺", word("recovered")}, "ok": {"good", "✓", word("ok")},
	string(event.NeedsApproval): {"ask", "?", word("needs-approval")}, string(event.NeedsAction): {"ask", "!", word("needs-action")},
	"waits": {"ask", "?", word("waits")}, "warning": {"ask", "!", word("warning")},
	string(event.Waiting): {"busy", "…", word("waiting")}, string(event.Unsettled): {"busy", "…", word("unsettled")},
	string(event.Writing): {"busy", "✎", word("writing")}, string(event.Planned): {"plain", "○", word("planned")},
	string(event.Failed): {"bad", "✕", word("failed")}, string(event.Erred): {"bad", "✕", word("error")},
	"problem": {"bad", "✕", word("problem")}, "critical": {"bad", "✕", word("critical")},
	string(event.Rejected): {"plain", "⊘", word("rejected")}, string(event.Undone): {"plain", "↶", word("undone")},
	string(event.Superseded): {"plain", "→", word("superseded")}, string(event.NotOurs): {"plain", "–", word("ignored")},
	"unknown": {"ask", "?", word("unknown")}, "info": {"plain", "i", word("info")},
}

// policyOfContent lets the browser load only what this server embeds.
const policyOfContent = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, show := range map[string]func(*http.Request) (page, error){
		"GET /{$}":       s.now,
		"GET /questions": s.questions,
		"GET /answers":   s.answers,
		"GET /cases":     s.cases,
		"GET /cases/{cluster}/{uid}/{class}/{id}": s.oneCase,
		"GET /doctor":          s.doctor,
		"GET /policy":          s.policy,
		"GET /classes":         s.classes,
		"GET /classes/{class}": s.class,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, show) })
	}
	mux.HandleFunc("POST /read", func(w http.ResponseWriter, r *http.Request) {
		s.reading.ask(true)
		http.Redirect(w, r, "/doctor", http.StatusSeeOther)
	})
	mux.HandleFunc("POST /answers", s.decide)
	mux.HandleFunc("GET /live", s.live)
	mux.Handle(agents, mcp.Handler(s.p))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.answer(w, r, func(*http.Request) (page, error) { return page{}, errNoPage })
	})
	files := http.NewServeMux()
	for _, name := range []string{"/style.css", "/script.js", "/icon.svg"} {
		files.Handle("GET "+name, s.files)
	}
	files.Handle("/", http.NewCrossOriginProtection().Handler(s.entered(mux)))
	guarded := s.guarded(files)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" { // a kubelet uses the Pod's address
			_, _ = io.WriteString(w, "ok\n") // fails if the caller has gone
			return
		}
		guarded.ServeHTTP(w, r)
	})
}

// sent returns a host as browsers send it: in lower case, and without the default port of the scheme.
func (s *server) sent(host string) string {
	return strings.TrimSuffix(strings.ToLower(host), map[string]string{"http": ":80", "https": ":443"}[s.url.Scheme])
}

// guarded sets headers for all answers, and refuses other hosts, whose names may have been made to resolve to this machine.
func (s *server) guarded(next http.Handler) http.Handler {
	here := []string{s.sent(s.url.Host)}
	if loopback(s.url.Hostname()) {
		here = append(here, s.sent(strings.TrimSuffix("localhost:"+s.url.Port(), ":")))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policyOfContent)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if !slices.Contains(here, s.sent(r.Host)) {
			http.Error(w, "This console is at "+s.url.String()+" alone.", http.StatusMisdirectedRequest)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
		next.ServeHTTP(w, r)
	})
}

type page struct {
	Title   string
	Body    any
	name    string // of the template
	version uint64
}

type message struct{ Text string }

type layout struct {
	Title   string
	Version uint64 // of what there is to see
	Entries []entry
	Cluster string
	Away    *away
	Loading bool
	Asked   int    // number of questions
	Enter   bool   // there is only the login to see
	Person  string // the logged-in person
	Body    any
}

type entry struct {
	Path, Name string
	Here       bool
	Count      int
}

var entries = []entry{
	{Path: "/", Name: word("Now")}, {Path: "/questions", Name: word("Questions")}, {Path: "/cases", Name: word("Cases")},
	{Path: "/doctor", Name: word("Doctor")}, {Path: "/policy", Name: word("Policy")},
	{Path: "/classes", Name: word("Classes")},
}

func (s *server) answer(w http.ResponseWriter, r *http.Request, make func(*http.Request) (page, error)) {
	version, _ := s.hub.now() // read before: a later change is requested again
	pg, err := make(r)
	code := http.StatusOK
	switch {
	case errors.Is(err, errNoPage):
		code, pg = http.StatusNotFound, page{Title: word("Not found"), name: "message", Body: message{word("There is no such page, or what it showed is gone.")}}
	case err != nil:
		code, pg = http.StatusBadGateway, page{Title: word("Not available"), name: "message", Body: message{said(err)}}
	}
	pg.version = version
	s.show(w, r, code, pg)
}

func said(err error) string { return errorText(nil, err) }

func errorText(l *say.Language, err error) string {
	text := strings.TrimRight(strings.TrimSpace(command.Clean(event.Redact(say.Of(err).In(l)))), ".。")
	if text == "" {
		return l.Format(word("Something went wrong."))
	}
	end := "."
	if last, _ := utf8.DecodeLastRuneInString(text); unicode.Is(unicode.Han, last) {
		end = "。"
	}
	first, n := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[n:] + end
}

func (s *server) show(w http.ResponseWriter, r *http.Request, code int, pg page) {
	l := layout{Title: pg.Title, Version: pg.version, Cluster: s.p.Cluster, Body: pg.Body, Enter: true}
	if p, in := r.Context().Value(personKey{}).(*person); in {
		l.Enter = false
		l.Away, l.Loading, l.Asked = s.index.banner()
		if _, logged := s.auth.(*logins); logged {
			l.Person = p.name(r.Context())
		}
	}
	for _, e := range entries {
		e.Here = e.Path == r.URL.Path || e.Path != "/" && strings.HasPrefix(r.URL.Path, e.Path+"/")
		if e.Path == "/questions" {
			e.Count = l.Asked
		}
		l.Entries = append(l.Entries, e)
	}
	var b bytes.Buffer
	pages, err := s.pages[s.p.Reads(r.Header).Language().Name()]()
	if err == nil {
		err = pages[pg.name].ExecuteTemplate(&b, "layout.html", l)
	}
	if err != nil {
		http.Error(w, said(fmt.Errorf("make the page %s: %w", pg.name, err)), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(b.Len()))
	w.WriteHeader(code)
	_, _ = w.Write(b.Bytes()) // fails if the browser has gone
}
