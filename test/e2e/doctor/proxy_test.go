package doctor

import (
	"bufio"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"regexp"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/lbremedy/lbremedy/shared/grant"
)

// proxy returns a kubeconfig that leads to the cluster with the rights of grants, for a
// process of its own. Such a process has a clock that can't be put forward, so that the
// proxy puts the cluster's back: all times that the API server states are earlier by as
// much as the doctor's clock is ahead. before, if it is not nil, sees each request and
// may hold it up.
func (r *rig) proxy(user string, grants []grant.Grant, before func(*http.Request)) (kubeconfig string) {
	r.Helper()
	config, err := r.testbed.Cluster.Impersonate(r.ctx, user, rules(grants))
	r.must(err)
	to, err := url.Parse(config.Host)
	r.must(err)
	transport, err := rest.TransportFor(config)
	r.must(err)
	forward := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(to)
			p.Out.Header.Del("Accept-Encoding") // the transport unpacks what it has asked for itself
		},
		ModifyResponse: func(resp *http.Response) error {
			resp.Body = aged(resp.Body, time.Duration(r.ahead.Load()))
			resp.ContentLength = -1
			resp.Header.Del("Content-Length")
			return nil
		},
		Transport: transport, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if before != nil {
			before(req)
		}
		forward.ServeHTTP(w, req)
	}))
	r.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	file := filepath.Join(r.TempDir(), "kubeconfig")
	r.must(clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"testbed": {Server: server.URL}}, AuthInfos: map[string]*clientcmdapi.AuthInfo{"person": {}},
		Contexts: map[string]*clientcmdapi.Context{"testbed": {Cluster: "testbed", AuthInfo: "person"}}, CurrentContext: "testbed",
	}, file))
	return file
}

var instant = regexp.MustCompile(`"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"`)

// aged returns a body in whose JSON all times are earlier. Answers are one line, and
// what is watched one line for each event.
func aged(body io.ReadCloser, by time.Duration) io.ReadCloser {
	out, in := io.Pipe()
	go func() {
		defer body.Close()
		lines := bufio.NewReader(body)
		for {
			line, err := lines.ReadBytes('\n')
			line = instant.ReplaceAllFunc(line, func(said []byte) []byte {
				at, err := time.Parse(`"`+time.RFC3339Nano+`"`, string(said))
				if err != nil {
					return said
				}
				form := time.RFC3339
				if len(said) > len(`"2006-01-02T15:04:05Z"`) {
					form = "2006-01-02T15:04:05.000000Z07:00" // of leases and newer Events
				}
				return []byte(at.Add(-by).UTC().Format(`"` + form + `"`))
			})
			if _, failed := in.Write(line); failed != nil {
				return // nobody reads on
			}
			if err != nil {
				in.CloseWithError(err) // io.EOF at the end
				return
			}
		}
	}()
	return &agedBody{out, body}
}

// An agedBody ends what it is read from, too.
type agedBody struct {
	*io.PipeReader
	from io.Closer
}

func (b *agedBody) Close() error {
	_ = b.PipeReader.Close() // it never fails
	return b.from.Close()
}
