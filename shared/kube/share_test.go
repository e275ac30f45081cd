package kube_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/lbremedy/lbremedy/shared/kube"
)

func TestServicesAreReadOnceForAll(t *testing.T) {
	var lists atomic.Int32
	goOn := make(chan struct{})
	began := make(chan struct{}, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lists.Add(1)
		began <- struct{}{}
		select {
		case <-goOn:
		case <-r.Context().Done():
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(`{"kind":"ServiceList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"web"}}]}`))
	}))
	defer server.Close()
	c, err := kube.New(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	first, end := context.WithCancel(limited(t))
	gone := make(chan error, 1)
	go func() { _, err := c.Services(first); gone <- err }()
	<-began
	var wait, asked sync.WaitGroup
	asked.Add(100)
	for range 100 {
		wait.Go(func() {
			asked.Done()
			list, err := c.Services(limited(t))
			if err != nil || len(list) != 1 || list[0].Name != "web" {
				t.Errorf("got %v, %v", list, err)
			}
		})
	}
	asked.Wait()
	end()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("who has left got %v", err)
	}
	close(goOn)
	wait.Wait()
	if n := lists.Load(); n > 10 { // some of the hundred may have been slow to ask
		t.Errorf("a hundred who ask at once made %d lists", n)
	}
	before := lists.Load()
	if _, err := c.Services(limited(t)); err != nil || lists.Load() != before+1 {
		t.Errorf("who asks afterwards made %d lists, %v", lists.Load()-before, err)
	}
}
