package route

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lbremedy/lbremedy/shared/cloud"
	"github.com/lbremedy/lbremedy/shared/hand"
	"github.com/lbremedy/lbremedy/test/sim"
	"github.com/lbremedy/lbremedy/test/sim/fc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const call = "a.signed.call"

func endpoint(t *testing.T, keys cloud.Credentials, route string, args ...any) *Endpoint {
	t.Helper()
	routes, err := Parse(fmt.Appendf(nil, "routes: {busy: "+route+"}", args...), "c1", known)
	if err != nil {
		t.Fatal(err)
	}
	e, err := newEndpoint(routes["busy"], keys)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.client.CloseIdleConnections() })
	return e
}

func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	return started(t, h, (*httptest.Server).Start)
}

func started(t *testing.T, h http.HandlerFunc, start func(*httptest.Server)) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	start(s)
	t.Cleanup(s.Close)
	return s
}

func answers(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// Send returns every answer in JSON, whatever its status. For any other answer, the kind says whether the call may have arrived.
func TestSend(t *testing.T) {
	t.Parallel()
	const secret = "https://slb.aliyuncs.com/?AccessKeyId=LTAI4FakeFakeFake1234&Signature=c2VjcmV0c2VjcmV0c2Vj%3D"
	var followed atomic.Int64
	elsewhere := serve(t, func(http.ResponseWriter, *http.Request) { followed.Add(1) })
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		kind   error  // nil: the answer is the function's
		says   string // in the error, or the whole answer
	}{
		"an answer":             {answers(200, ` {"id":"1"}`), nil, ` {"id":"1"}`},
		"a problem":             {answers(401, `{"problem":{"type":"denied","detail":"no"}}`), nil, `{"problem":{"type":"denied","detail":"no"}}`},
		"nothing":               {answers(204, ""), hand.ErrUnsure, "answers 204: "},
		"a page":                {answers(200, "<html>\n welcome"), hand.ErrUnsure, "answers 200: <html> welcome"},
		"not found":             {answers(404, "404 page not found\n"), hand.ErrUnavailable, "answers 404: 404 page not found: "},
		"too many":              {answers(429, ""), hand.ErrUnavailable, "answers 429"},
		"too slow to read":      {answers(408, "slow"), hand.ErrUnsure, "answers 408"},
		"no function behind it": {answers(502, "bad gateway"), hand.ErrUnsure, "answers 502: bad gateway"},
		"overloaded":            {answers(503, "no instance"), hand.ErrUnsure, "answers 503"},
		"a secret":              {answers(403, "no to "+secret), hand.ErrUnavailable, "answers 403: no to https://slb.aliyuncs.com/"},
		"a redirect": {
			http.RedirectHandler(elsewhere.URL, http.StatusPermanentRedirect).ServeHTTP, hand.ErrUnavailable, "answers 308",
		},
		"a redirect to see":       {http.RedirectHandler(elsewhere.URL, http.StatusSeeOther).ServeHTTP, hand.ErrUnavailable, "answers 303"},
		"refused by the platform": {answers(400, `{"Code":"InvalidArgument","Message":"no","RequestId":"1"}`), hand.ErrUnavailable, "InvalidArgument"},
		"broken platform":         {answers(500, `{"Code":"InternalServerError","Message":"no","RequestId":"1"}`), hand.ErrUnsure, "InternalServerError"},
		"an error of the function": {answers(200, `{"errorType":"x","errorMessage":"out of memory"}`, "X-Fc-Error-Type", "UnhandledInvocationError"),
			hand.ErrUnsure, "the function ended with an error: out of memory"},
		"a death of the function": {answers(200, "killed", "X-Fc-Error-Type", "FunctionTimeoutError"), hand.ErrUnsure,
			"the function ended with an error: killed"},
		"no answer": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, hand.ErrUnsure, "call the function: EOF"},
		"half an answer": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"id":`)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, hand.ErrUnsure, "read the answer of the function: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := endpoint(t, nil, "{url: '%s/busy'}", serve(t, tt.answer).URL)
			got, err := e.Send(t.Context(), []byte(call))
			if tt.kind == nil {
				if err != nil || string(got) != tt.says {
					t.Errorf("got %q, %v", got, err)
				}
				return
			}
			if got != nil || !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "c2VjcmV0") {
				t.Errorf("got %q, %v; want %v and %q", got, err, tt.kind, tt.says)
			}
		})
	}
	t.Cleanup(func() {
		if n := followed.Load(); n > 0 {
			t.Errorf("%d calls followed a redirect", n)
		}
	})
}

func TestRequest(t *testing.T) {
	t.Parallel()
	came := make(chan *http.Request, 1)
	var body []byte
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ = io.ReadAll(r.Body)
		came <- r
		answers(200, "{}")(w, r)
	})
	e := endpoint(t, nil, "{url: '%s/a?b=c', headers: {Host: '{class}.{cluster}.internal', X-Api: k3y}}", s.URL)
	if _, err := e.Send(t.Context(), []byte(call)); err != nil {
		t.Fatal(err)
	}
	r := <-came
	if r.Method != http.MethodPost || r.RequestURI != "/a?b=c" || r.Host != "busy.c1.internal" || r.Header.Get("X-Api") != "k3y" ||
		r.Header.Get("Content-Type") != hand.MediaType || r.Header.Get("Authorization") != "" || string(body) != call {
		t.Errorf("got %s %s at %s with %v: %s", r.Method, r.RequestURI, r.Host, r.Header, body)
	}
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	e := endpoint(t, nil, "{url: 'http://%s/?token=s3cr3t'}", l.Addr())
	if _, err := e.Send(t.Context(), []byte(call)); !errors.Is(err, hand.ErrUnavailable) || !strings.Contains(err.Error(), "refused") ||
		strings.Contains(err.Error(), "s3cr3t") {
		t.Errorf("got %v", err)
	}
}

func TestNoAnswerInTime(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then the server notices that the caller is gone
		<-r.Context().Done()
	})
	if _, err := endpoint(t, nil, "{url: '%s'}", s.URL).Send(ctx, []byte(call)); !errors.Is(err, hand.ErrUnsure) ||
		!strings.Contains(err.Error(), "no answer came in time") {
		t.Errorf("got %v", err)
	}
}

// An endless answer is read up to the limit, which the caller checks.
func TestEndlessAnswer(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "{")
		for spaces := make([]byte, 64<<10); ; {
			if _, err := w.Write(spaces); err != nil {
				return
			}
		}
	})
	got, err := endpoint(t, nil, "{url: '%s'}", s.URL).Send(t.Context(), []byte(call))
	if err != nil || len(got) != hand.MaxAnswer+1 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// net/http would repeat some requests when a reused connection ends.
func TestSentOnce(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var requests atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			for r := bufio.NewReader(c); ; {
				q, err := http.ReadRequest(r)
				if err != nil {
					break
				}
				_, _ = io.Copy(io.Discard, q.Body)
				if requests.Add(1)%2 == 0 {
					break // every second one gets no answer
				}
				fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
			}
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	e := endpoint(t, nil, "{url: 'http://%s', headers: {Idempotency-Key: x}}", l.Addr())
	for i := range 10 {
		_, err := e.Send(t.Context(), []byte(call))
		if want := i%2 == 1; (err != nil) != want || want && !errors.Is(err, hand.ErrUnsure) {
			t.Errorf("call %d: %v", i+1, err)
		}
		if n := requests.Load(); n != int64(i+1) {
			t.Fatalf("%d requests for %d calls", n, i+1)
		}
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	var came atomic.Int64
	s := started(t, func(w http.ResponseWriter, r *http.Request) { came.Add(1); answers(200, "{}")(w, r) }, (*httptest.Server).StartTLS)
	if _, err := endpoint(t, nil, "{url: '%s'}", s.URL).Send(t.Context(), []byte(call)); !errors.Is(err, hand.ErrUnavailable) ||
		!strings.Contains(err.Error(), "certificate") || came.Load() != 0 {
		t.Errorf("an unknown authority: %v, %d calls came", err, came.Load())
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := endpoint(t, nil, "{url: '%s', ca: '%s'}", s.URL, ca).Send(t.Context(), []byte(call)); err != nil || came.Load() != 1 {
		t.Errorf("a known authority: %v, %d calls came", err, came.Load())
	}
	port := s.Listener.Addr().(*net.TCPAddr).Port
	if _, err := endpoint(t, nil, "{url: 'https://localhost:%d', ca: '%s'}", port, ca).Send(t.Context(), []byte(call)); came.Load() != 1 ||
		!errors.Is(err, hand.ErrUnavailable) {
		t.Errorf("another name: %v, %d calls came", err, came.Load())
	}
}

// Mounted certificates change in place. While the file is unusable, the last ones apply.
func TestTLSWithNewRoots(t *testing.T) {
	t.Parallel()
	var shown atomic.Pointer[tls.Certificate]
	s := started(t, answers(200, "{}"), func(s *httptest.Server) {
		s.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return &tls.Config{Certificates: []tls.Certificate{*shown.Load()}}, nil
		}}
		s.StartTLS()
	})
	ca := filepath.Join(t.TempDir(), "ca.pem")
	roots := func(text []byte) {
		t.Helper()
		if err := os.WriteFile(ca, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first, text := selfSigned(t)
	shown.Store(&first)
	roots(text)
	e := endpoint(t, nil, "{url: '%s', ca: '%s'}", s.URL, ca)
	again := func() { e.client.CloseIdleConnections() } // the server presents its certificate only on new ones
	if _, err := e.Send(t.Context(), []byte(call)); err != nil {
		t.Fatal(err)
	}
	second, text := selfSigned(t)
	for i, file := range [][]byte{text, nil, []byte("not a certificate")} {
		roots(file)
		shown.Store(&second)
		again()
		if _, err := e.Send(t.Context(), []byte(call)); err != nil {
			t.Fatalf("change %d of the file: %v", i+1, err)
		}
	}
	if err := os.Remove(ca); err != nil {
		t.Fatal(err)
	}
	shown.Store(&first)
	again()
	if _, err := e.Send(t.Context(), []byte(call)); !errors.Is(err, hand.ErrUnavailable) {
		t.Errorf("the first certificate is trusted still: %v", err)
	}
}

func selfSigned(t *testing.T) (tls.Certificate, []byte) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, about, about, public, private)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// Functions of Function Compute are called by the API, and by a trigger that requires a signature. The gateway checks signatures independently.
func TestFunctionCompute(t *testing.T) {
	t.Parallel()
	key := cloud.Key{ID: "LTAI4TestTestTest", Secret: "s3cr3t", Token: "t0ken"}
	gateway := httptest.NewServer(&fc.Gateway{
		Callers: []sim.Credentials{{AccessKeyID: key.ID, Secret: key.Secret, Token: key.Token}},
		Functions: map[string]func([]byte) (string, string){
			"f-busy": func(body []byte) (string, string) { return "", `{"id":"` + string(body) + `"}` },
			"f-dies": func([]byte) (string, string) { return "errorString", "it died" },
		},
		Trigger: answers(200, `{"id":"trigger"}`),
	})
	t.Cleanup(gateway.Close)
	const api = "{invoke: {function: '%s', account: '12345', region: cn-hangzhou, endpoint: '%s'}}"
	for name, tt := range map[string]struct {
		route, to string
		kind      error
		says      string
	}{
		"by the API":    {api, "f-{class}", nil, `{"id":"` + call + `"}`},
		"it dies":       {api, "f-dies", hand.ErrUnsure, "the function ended with an error: it died"},
		"not there":     {api, "f-none", hand.ErrUnavailable, "FunctionNotFound"},
		"by a trigger":  {"{sign: true, headers: {X-A: '%s'}, url: '%s/a?b=c'}", "b", nil, `{"id":"trigger"}`},
		"not signed":    {"{headers: {X-A: '%s'}, url: '%s/a?b=c'}", "b", hand.ErrUnavailable, ""},
		"nobody's keys": {api, "f-busy", hand.ErrUnavailable, "sign the request: no access key found"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			keys := func(context.Context) (cloud.Key, error) {
				if name == "nobody's keys" {
					return cloud.Key{}, errors.New("no access key found")
				}
				return key, nil
			}
			got, err := endpoint(t, keys, tt.route, tt.to, gateway.URL).Send(t.Context(), []byte(call))
			switch {
			case tt.kind == nil:
				if err != nil || string(got) != tt.says {
					t.Errorf("got %q, %v", got, err)
				}
			case !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), key.Secret) ||
				strings.Contains(err.Error(), key.Token):
				t.Errorf("got %q, %v; want %v and %q", got, err, tt.kind, tt.says)
			}
		})
	}
}
