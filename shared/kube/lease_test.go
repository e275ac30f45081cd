package kube_test

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lbremedy/lbremedy/shared/kube"
)

type apiServer struct {
	*httptest.Server
	token  atomic.Value // string
	turned atomic.Int32 // requests that were rejected
	bodies atomic.Value // string: the last body
}

func newAPIServer(t *testing.T, token string) *apiServer {
	t.Helper()
	d := &apiServer{}
	d.token.Store(token)
	d.bodies.Store("")
	d.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err == nil && len(body) > 0 {
			d.bodies.Store(string(body))
		}
		w.Header().Set("Content-Type", "application/json")
		if r.Header.Get("Authorization") != "Bearer "+d.token.Load().(string) {
			d.turned.Add(1)
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}`)
			return
		}
		if r.Method == http.MethodPatch {
			fmt.Fprint(w, `{"kind":"Service","apiVersion":"v1","metadata":{"namespace":"shop","name":"web","uid":"2"}}`)
			return
		}
		fmt.Fprintf(w, `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"shop","uid":"1","annotations":{"host":%q,"path":%q}}}`, r.Host, r.URL.Path)
	}))
	t.Cleanup(d.Close)
	return d
}

func (d *apiServer) kubeconfig(token string) []byte {
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: d.Certificate().Raw})
	return fmt.Appendf(nil, `{"clusters":[{"name":"a","cluster":{"server":"%s/prefix","certificate-authority-data":%q}}],
		"contexts":[{"name":"a","context":{"cluster":"a","user":"a"}}],"current-context":"a","users":[{"name":"a","user":{"token":%q}}]}`,
		d.URL, base64.StdEncoding.EncodeToString(ca), token)
}

func leased(t *testing.T, lend func(n int) (kube.Lease, error)) (*kube.Cluster, *atomic.Int32) {
	t.Helper()
	var n atomic.Int32
	return kube.Leased(func(context.Context) (kube.Lease, error) { return lend(int(n.Add(1))) }), &n
}

func look(t *testing.T, c *kube.Cluster) error {
	t.Helper()
	ns, err := c.Namespace(t.Context(), "shop")
	if err == nil && ns.Annotations["path"] != "/prefix/api/v1/namespaces/shop" {
		t.Errorf("asked for %s, want it below the server's path", ns.Annotations["path"])
	}
	return err
}

func TestLeaseIsKept(t *testing.T) {
	d := newAPIServer(t, "one")
	c, lent := leased(t, func(int) (kube.Lease, error) {
		return kube.Lease{Kubeconfig: d.kubeconfig("one"), Ends: time.Now().Add(time.Hour)}, nil
	})
	if lent.Load() != 0 {
		t.Error("a lease is asked for before it is needed")
	}
	var wait sync.WaitGroup
	for range 50 {
		wait.Go(func() {
			if err := look(t, c); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if n := lent.Load(); n != 1 {
		t.Errorf("%d leases for 50 requests at once, want 1", n)
	}
}

func TestLeaseIsRenewedEarly(t *testing.T) {
	d := newAPIServer(t, "one")
	fails := false
	c, lent := leased(t, func(int) (kube.Lease, error) {
		if fails {
			return kube.Lease{}, errors.New("no such luck")
		}
		return kube.Lease{Kubeconfig: d.kubeconfig("one"), Ends: time.Now().Add(4 * time.Minute)}, nil
	})
	for want := int32(1); want <= 3; want++ {
		if err := look(t, c); err != nil {
			t.Fatal(err)
		}
		if lent.Load() != want {
			t.Fatalf("%d leases after %d requests that are near the end", lent.Load(), want)
		}
	}
	fails = true
	if err := look(t, c); err != nil {
		t.Errorf("a lease that can't be renewed is not used until its end: %v", err)
	}
}

func TestLeaseEndsAtOnce(t *testing.T) {
	d := newAPIServer(t, "one")
	c, lent := leased(t, func(n int) (kube.Lease, error) {
		return kube.Lease{Kubeconfig: d.kubeconfig([]string{"", "one", "two"}[min(n, 2)]), Ends: time.Now().Add(time.Hour)}, nil
	})
	if err := look(t, c); err != nil {
		t.Fatal(err)
	}
	d.token.Store("two")
	status := "closed for today"
	if _, err := kube.NewWriter(c).PatchService(t.Context(), "shop", "web", "7", kube.ServicePatch{Annotations: map[string]*string{"note": &status}}); err != nil {
		t.Fatal(err)
	}
	if body := d.bodies.Load().(string); !strings.Contains(body, status) {
		t.Errorf("the second request has the body %q", body)
	}
	if lent.Load() != 2 || d.turned.Load() != 1 {
		t.Errorf("%d leases and %d requests turned away, want 2 and 1", lent.Load(), d.turned.Load())
	}
	// If every lease is rejected, that is the answer.
	d.token.Store("three")
	if err := look(t, c); !errors.Is(err, kube.ErrDenied) {
		t.Errorf("got %v, want what the API server says", err)
	}
	if d.turned.Load() != 3 {
		t.Errorf("%d requests turned away, want two more", d.turned.Load())
	}
}

func TestNoLease(t *testing.T) {
	for name, lease := range map[string]kube.Lease{
		"nothing":    {},
		"no YAML":    {Kubeconfig: []byte("{secret")},
		"no cluster": {Kubeconfig: []byte(`{"current-context":"secret"}`)},
		"a program":  {Kubeconfig: []byte(`{"users":[{"name":"a","user":{"exec":{"command":"secret","apiVersion":"client.authentication.k8s.io/v1"}}}]}`)},
		"a file":     {Kubeconfig: []byte(`{"users":[{"name":"a","user":{"tokenFile":"secret"}}]}`)},
		"a CA file":  {Kubeconfig: []byte(`{"clusters":[{"name":"a","cluster":{"server":"https://a","certificate-authority":"secret"}}]}`)},
	} {
		c, _ := leased(t, func(int) (kube.Lease, error) { return lease, nil })
		if err := look(t, c); !errors.Is(err, kube.ErrUnavailable) || !strings.Contains(err.Error(), "kubeconfig") || name != "no cluster" &&
			strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want an error that says so and quotes nothing", name, err)
		}
	}
	c, _ := leased(t, func(int) (kube.Lease, error) { return kube.Lease{}, errors.New("not authorized") })
	if err := look(t, c); !errors.Is(err, kube.ErrUnavailable) || !strings.Contains(err.Error(), "get a kubeconfig: not authorized") {
		t.Errorf("got %v, want why there is no lease", err)
	}
}

func TestLeaseWait(t *testing.T) {
	began, end := make(chan struct{}), make(chan struct{})
	c, _ := leased(t, func(int) (kube.Lease, error) {
		close(began)
		<-end
		return kube.Lease{}, errors.New("at last")
	})
	done := make(chan error)
	go func() {
		_, err := c.Namespace(t.Context(), "shop")
		done <- err
	}()
	<-began
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Namespace(ctx, "shop"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the end of its own context", err)
	}
	close(end)
	if err := <-done; err == nil {
		t.Error("no lease, and no error")
	}
}
