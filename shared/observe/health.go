package observe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/lbremedy/lbremedy/shared/event"
)

// Open serves /healthz (the process lives), /readyz (ready's result) and /metrics until the returned function is called; nothing without a listener.
func Open(listener net.Listener, ready func(context.Context) error, metrics http.Handler, log *slog.Logger) func() {
	if listener == nil {
		return func() {}
	}
	server := &http.Server{Handler: Health(ready, metrics), ReadHeaderTimeout: hearing, ReadTimeout: hearing, WriteTimeout: answering,
		IdleTimeout: 30 * time.Second, MaxHeaderBytes: 8 << 10}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the health endpoints are gone", "error", err)
		}
	}()
	return func() { _ = server.Close() }
}

const (
	hearing   = 5 * time.Second  // how long a request may take to arrive; net/http also waits for a body that nobody reads
	answering = 30 * time.Second // how long sending an answer may take
)

// Health answers /healthz with 200, /readyz with the result of ready within 2 s, and /metrics. It refuses a request with a body.
func Health(ready func(context.Context) error, metrics http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		if err := ready(ctx); err != nil {
			http.Error(w, event.Redact(err.Error()), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			w.Header().Set("Connection", "close")
			http.Error(w, "send no body", http.StatusRequestEntityTooLarge)
			return
		}
		mux.ServeHTTP(w, r)
	})
}
