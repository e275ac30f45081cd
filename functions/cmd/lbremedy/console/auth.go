package console

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/lbremedy/lbremedy/shared/event"
	"github.com/lbremedy/lbremedy/shared/kube"
	"github.com/lbremedy/lbremedy/shared/say"
)

type authenticator interface {
	// enter returns the person behind a request. It answers all other requests and returns nil.
	enter(w http.ResponseWriter, r *http.Request) *person
	stillValid(r *http.Request) bool
}

func (s *server) entered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := s.auth.enter(w, r); p != nil {
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), personKey{}, p)))
		}
	})
}

func stay(u *url.URL) string {
	to := url.URL{Path: u.Path, RawQuery: u.RawQuery}
	if !strings.HasPrefix(to.Path, "/") || strings.HasPrefix(to.Path, "//") || strings.ContainsRune(to.Path, '\\') {
		return "/"
	}
	return to.String()
}

// agents is the path of the Model Context Protocol. Each request carries the token or the key with which a person logs in.
const agents = "/mcp"

func ofAgent(r *http.Request) (token string, ok bool) {
	token, ok = strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return strings.TrimSpace(token), ok && r.URL.Path == agents
}

// keyed admits holders of the key: first in the address, then in a cookie.
type keyed struct {
	*server
	key    string
	person *person
}

func (k keyed) is(key string) bool {
	return subtle.ConstantTimeCompare([]byte(key), []byte(k.key)) == 1
}

func (k keyed) stillValid(*http.Request) bool { return true }

func (k keyed) enter(w http.ResponseWriter, r *http.Request) *person {
	q := r.URL.Query()
	if r.Method == http.MethodGet && k.is(q.Get("key")) {
		http.SetCookie(w, k.cookie(k.key, 0))
		q.Del("key")
		http.Redirect(w, r, stay(&url.URL{Path: r.URL.Path, RawQuery: q.Encode()}), http.StatusSeeOther)
		return nil
	}
	if token, ok := ofAgent(r); ok && k.is(token) {
		return k.person
	}
	if c, err := r.Cookie(k.cookie("", 0).Name); err != nil || !k.is(c.Value) {
		k.show(w, r, http.StatusUnauthorized, page{Title: word("No key"), name: "message",
			Body: message{word("This address has no key, or one of an earlier start. Open the address that lbremedy console printed.")}})
		return nil
	}
	return k.person
}

// cookie returns a cookie that the browser sends to this console only. A negative age deletes it.
func (s *server) cookie(value string, age int) *http.Cookie {
	c := &http.Cookie{Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: age}
	if c.Secure = s.url.Scheme == "https"; c.Secure {
		c.Name = "__Host-lbremedy-console"
	} else { // cookies don't distinguish ports
		c.Name = "lbremedy-console-" + s.url.Port()
	}
	return c
}

const (
	longest  = time.Hour        // life of a login
	idle     = 15 * time.Minute // without activity
	recheck  = 30 * time.Second // interval of asking the API server whether the token is still valid
	trusted  = 5 * time.Minute  // without an answer of the API server
	sessions = 500              // at a time; another one ends the longest idle one
	atOnce   = 8                // concurrent logins and answers
)

// logins admits users who may list the Services of all namespaces. It asks with the person's own token, so the console needs no right for that.
type logins struct {
	*server
	as   func(token string) (*kube.Cluster, error)
	free *semaphore.Weighted

	mu  sync.Mutex          // guards all sessions
	all map[string]*session // by the cookie's value
}

// A session is an open login. The token is kept only in memory.
type session struct {
	*person
	began, used, checked time.Time
	asking               sync.Mutex // held while asking the API server
}

func newLogins(s *server, as func(string) (*kube.Cluster, error)) *logins {
	return &logins{server: s, as: as, free: semaphore.NewWeighted(atOnce), all: map[string]*session{}}
}

// A refusal is why a person may not look, with the status of the answer.
type refusal struct {
	error
	status int
}

func (r *refusal) Unwrap() error { return r.error }

var (
	errNoLogin error = &refusal{errors.New("log in to look at the console"), http.StatusUnauthorized}
	errEnded   error = &refusal{say.Errorf("the login has ended: log in again"), http.StatusUnauthorized}
	errUnknown error = &refusal{say.Errorf("the API server does not accept this token"), http.StatusUnauthorized}
)

func (l *logins) enter(w http.ResponseWriter, r *http.Request) *person {
	switch {
	case r.Method == http.MethodPost && r.URL.Path == "/login":
		l.login(w, r)
		return nil
	case r.Method == http.MethodPost && r.URL.Path == "/logout":
		if c, err := r.Cookie(l.cookie("", 0).Name); err == nil {
			l.end(c.Value)
		}
		http.SetCookie(w, l.cookie("", -1))
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return nil
	}
	x, err := l.session(r, r.Header.Get(unasked) == "" && r.URL.Path != "/live") // a browser reopens the stream automatically
	if token, ok := ofAgent(r); ok {
		x, err = l.agent(r, token)
	}
	if err != nil {
		l.refuse(w, r, err, stay(r.URL))
		return nil
	}
	return x.person
}

func (l *logins) stillValid(r *http.Request) bool {
	_, err := l.session(r, false)
	return err == nil
}

func (l *logins) refuse(w http.ResponseWriter, r *http.Request, err error, to string) {
	b := loginBody{To: to, Cluster: l.p.Cluster, Wrong: err}
	code := http.StatusServiceUnavailable
	if no, ok := errors.AsType[*refusal](err); ok {
		code = no.status
	} else if errors.Is(err, kube.ErrDenied) {
		code = http.StatusForbidden
	}
	if errors.Is(err, errNoLogin) {
		b.Wrong = nil
	}
	if r.URL.Path == agents {
		w.Header().Set("WWW-Authenticate", "Bearer")
		http.Error(w, said(err), code)
		return
	}
	l.show(w, r, code, page{Title: word("Log in"), name: "login", Body: b})
}

type loginBody struct {
	To, Cluster string
	Wrong       error
}

func (l *logins) login(w http.ResponseWriter, r *http.Request) {
	token, to := strings.TrimSpace(r.PostFormValue("token")), "/"
	if u, err := url.Parse(r.PostFormValue("to")); err == nil {
		to = stay(u)
	}
	id := rand.Text()
	if _, err := l.open(r.Context(), id, token); err != nil {
		l.refuse(w, r, err, to)
		return
	}
	http.SetCookie(w, l.cookie(id, int(longest/time.Second)))
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// agent opens a session by a program's token, like a person's, and again when it has ended.
func (l *logins) agent(r *http.Request, token string) (*session, error) {
	sum := sha256.Sum256([]byte(token))
	id := "agent " + hex.EncodeToString(sum[:])
	x, err := l.kept(r.Context(), id, true)
	if errors.Is(err, errEnded) {
		return l.open(r.Context(), id, token)
	}
	return x, err
}

func (l *logins) open(ctx context.Context, id, token string) (*session, error) {
	if len(token) == 0 || len(token) > 16<<10 || strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return nil, errUnknown
	}
	if err := l.free.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer l.free.Release(1)
	cluster, err := l.as(token)
	if err != nil {
		return nil, err
	}
	name, err := l.known(ctx, cluster)
	if err != nil {
		return nil, err
	}
	now := l.p.Now()
	x := &session{person: newPerson(cluster, name, nil), began: now, used: now, checked: now}
	l.keep(id, x)
	return x, nil
}

func (l *logins) known(ctx context.Context, c *kube.Cluster) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	me, err := c.Me(ctx)
	var no *kube.Error
	switch {
	case errors.As(err, &no) && no.Status == http.StatusUnauthorized, err == nil && (me.Name == "" || me.Name == "system:anonymous"):
		return "", errUnknown
	case err != nil:
		return "", err
	}
	may, err := c.MayI(ctx, kube.Review{Resource: "services", Verb: "list"})
	switch {
	case errors.As(err, &no) && no.Status == http.StatusUnauthorized:
		return "", errUnknown
	case err != nil:
		return "", err
	case !may:
		return "", &refusal{say.Errorf("the API server does not allow %s to list the Services of all namespaces, which it takes to look at the console",
			event.Redact(me.Name)), http.StatusForbidden}
	}
	return me.Name, nil
}

// keep stores a session. If there are too many, the longest idle one ends.
func (l *logins) keep(id string, x *session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.p.Now()
	oldest, least := "", now
	for id, x := range l.all {
		if x.over(now) {
			delete(l.all, id)
		} else if x.used.Before(least) {
			oldest, least = id, x.used
		}
	}
	if len(l.all) >= sessions {
		delete(l.all, oldest)
	}
	l.all[id] = x
}

func (x *session) over(now time.Time) bool {
	return now.Sub(x.used) > idle || now.Sub(x.began) > longest
}

func (l *logins) end(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.all, id)
}

// session returns a request's session, or why it has none. used: the person was active, not only their browser.
func (l *logins) session(r *http.Request, used bool) (*session, error) {
	c, err := r.Cookie(l.cookie("", 0).Name)
	if err != nil {
		return nil, errNoLogin
	}
	return l.kept(r.Context(), c.Value, used)
}

func (l *logins) kept(ctx context.Context, id string, used bool) (*session, error) {
	l.mu.Lock()
	x := l.all[id]
	now := l.p.Now()
	if x == nil || x.over(now) {
		delete(l.all, id)
		l.mu.Unlock()
		return nil, errEnded
	}
	if used {
		x.used = now
	}
	l.mu.Unlock()
	x.asking.Lock()
	defer x.asking.Unlock()
	since := now.Sub(x.checked) // written by the requester
	if since <= recheck {
		return x, nil
	}
	var no *refusal
	switch _, err := l.known(ctx, x.kube); {
	case err == nil:
		x.checked = now
	case errors.As(err, &no), errors.Is(err, kube.ErrDenied):
		l.end(id)
		return nil, errEnded
	case since > trusted:
		return nil, err
	}
	return x, nil
}

// unasked is the header of requests that a browser makes automatically.
const unasked = "Lbremedy-Live"
