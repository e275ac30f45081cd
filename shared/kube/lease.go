package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

// A Lease gives access to a cluster for a while.
type Lease struct {
	Kubeconfig []byte
	Ends       time.Time // when the API server stops accepting it
	As         string    // user to impersonate; empty: the kubeconfig's own
}

// early is how long before its end a lease is renewed: a run takes two minutes at most.
const early = 5 * time.Minute

// Leased returns the cluster of the leases from lend. It uses one, for all requests, until five minutes before its end, or until the
// API server rejects it: then it gets another and repeats the request, which was not processed. A lease that cannot be renewed is used
// until its end. lend is called with the context of the request, by one goroutine at a time.
func Leased(lend func(context.Context) (Lease, error)) (*Cluster, error) {
	l := &lessor{lend: lend, turn: make(chan struct{}, 1)}
	// This address is never used: each request goes where its lease leads.
	return New(&rest.Config{Host: "https://cluster.invalid", Transport: l})
}

type lessor struct {
	lend func(context.Context) (Lease, error)
	turn chan struct{} // its holder may read and change what follows
	held *held
}

type held struct {
	send http.RoundTripper
	base *url.URL
	ends time.Time
}

func (l *lessor) RoundTrip(r *http.Request) (*http.Response, error) {
	h, err := l.get(r.Context(), nil)
	if err != nil {
		return nil, err
	}
	answer, err := h.do(r)
	if err != nil || answer.StatusCode != http.StatusUnauthorized || r.Body != nil && r.GetBody == nil {
		return answer, err
	}
	next, err := l.get(r.Context(), h)
	if err != nil || next == h {
		return answer, nil // the API server's own answer is the better one
	}
	again := r.Clone(r.Context())
	if r.GetBody != nil {
		if again.Body, err = r.GetBody(); err != nil {
			return answer, nil
		}
	}
	_ = answer.Body.Close()
	return next.do(again)
}

// get returns a valid lease other than refused.
func (l *lessor) get(ctx context.Context, refused *held) (*held, error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	old := l.held
	left := time.Duration(0)
	if old != nil {
		left = time.Until(old.ends)
	}
	if old != nil && old != refused && left > early {
		return old, nil
	}
	lease, err := l.lend(ctx)
	if err == nil {
		var fresh *held
		if fresh, err = hold(lease); err == nil {
			l.held = fresh
			return fresh, nil
		}
	}
	if old != nil && old != refused && left > 0 {
		return old, nil
	}
	return nil, fmt.Errorf("get a kubeconfig: %w", err)
}

func hold(lease Lease) (*held, error) {
	config, err := Read(lease.Kubeconfig)
	if err != nil {
		return nil, err
	}
	config.Impersonate.UserName = lease.As
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, errors.New("the kubeconfig names no address that could be a server's")
	}
	send, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("use the kubeconfig: %w", hide(err))
	}
	return &held{send: send, base: base, ends: lease.Ends}, nil
}

func (h *held) do(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	out.Host = ""
	out.URL.Scheme, out.URL.Host = h.base.Scheme, h.base.Host
	out.URL.Path = strings.TrimSuffix(h.base.Path, "/") + r.URL.Path
	return h.send.RoundTrip(out)
}
