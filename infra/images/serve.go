package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"

	"github.com/google/go-containerregistry/pkg/registry"
)

// serveRegistry is a registry at an address until the context ends. It says where it is once it listens,
// keeps what is pushed in memory, and asks nobody who they are.
func serveRegistry(ctx context.Context, at string, out io.Writer) error {
	listener, err := net.Listen("tcp", at)
	if err != nil {
		return fmt.Errorf("listen as a registry: %w", err)
	}
	server := &http.Server{Handler: registry.New(registry.Logger(log.New(io.Discard, "", 0)))}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	fmt.Fprintf(out, "A registry is at %s.\n", listener.Addr())
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve as a registry: %w", err)
	}
	return nil
}
