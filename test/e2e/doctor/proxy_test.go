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

// proxy returns a kubeconfig for a separate process, with the rights of grants. That process's clock cannot be advanced, so the
// proxy shifts the API server's times back by as much as the doctor's clock is ahead. before, if not nil, is called with each
// request and may delay it.
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
			p.Out.Header.Del("Accept-Encoding") // the transport then requests and unpacks gzip itself
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

// aged returns a body whose JSON times are shifted back. A body is one line, or in a watch one line for each event.
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
				return // the reader has gone
			}
			if err != nil {
				in.CloseWithError(err) // io.EOF at the end
				return
			}
		}
	}()
	return &agedBody{out, body}
}

type agedBody struct {
	*io.PipeReader
	from io.Closer
}

func (b *agedBody) Close() error {
	_ = b.PipeReader.Close() // it never fails
	return b.from.Close()
}
