package kube

import (
	"context"
	"errors"
	"fmt"
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

const (
	renewing = 5 * time.Second  // longest renewal: requests wait for it
	again    = 30 * time.Second // until a failed renewal is tried again
)

// Leased returns the cluster of the leases from lend. It uses one, for all requests, until five minutes before its end, or until the
// API server rejects it: then it gets another and repeats the request, which was not processed. A lease that cannot be renewed within 5 s
// is used until its end, with another try every 30 s. lend is called with the context of the request, by one goroutine at a time.
func Leased(lend func(context.Context) (Lease, error)) *Cluster {
	l := &lessor{lend: lend, turn: make(chan struct{}, 1)}
	return &Cluster{client: l.get}
}

type lessor struct {
	lend func(context.Context) (Lease, error)
	turn chan struct{} // its holder may read and change what follows
	held *rest.RESTClient
	ends time.Time // of held
	late time.Time // when held could not be renewed
}

// get returns the client of a valid lease other than refused.
func (l *lessor) get(ctx context.Context, refused *rest.RESTClient) (*rest.RESTClient, error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	left := time.Duration(0)
	if l.held != nil && l.held != refused {
		left = time.Until(l.ends)
	}
	if left > early || left > 0 && time.Since(l.late) < again {
		return l.held, nil
	}
	if left > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, renewing)
		defer cancel()
	}
	lease, err := l.lend(ctx)
	if err == nil {
		var fresh *rest.RESTClient
		if fresh, err = lease.client(); err == nil {
			l.held, l.ends = fresh, lease.Ends
			return fresh, nil
		}
	}
	if left > 0 {
		l.late = time.Now()
		return l.held, nil
	}
	return nil, fmt.Errorf("get a kubeconfig: %w", err)
}

func (l Lease) client() (*rest.RESTClient, error) {
	config, err := Read(l.Kubeconfig)
	if err != nil {
		return nil, err
	}
	if _, _, err := rest.DefaultServerUrlFor(config); err != nil { // it quotes the address
		return nil, errors.New("the kubeconfig names no address that could be a server's")
	}
	config.Impersonate.UserName = l.As
	return connect(config)
}
