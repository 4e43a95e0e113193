// Package tarpit is a host that accepts connections and sends nothing: the TLS handshake or the answer that a client
// waits for does not come.
package tarpit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"golang.org/x/sync/errgroup"
)

// maxConns bounds the number of open connections; further ones wait unaccepted.
const maxConns = 1024

// Serve holds connections open until the client leaves or ctx ends. It closes the listener and returns nil when ctx
// ends.
func Serve(ctx context.Context, ln net.Listener) error {
	stop := context.AfterFunc(ctx, func() { _ = ln.Close() })
	defer stop()
	var held errgroup.Group
	held.SetLimit(maxConns)
	for {
		conn, err := ln.Accept()
		if err != nil {
			_ = held.Wait()
			if errors.Is(err, net.ErrClosed) && ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("tarpit: %w", err)
		}
		held.Go(func() error {
			hold(ctx, conn)
			return nil
		})
	}
}

func hold(ctx context.Context, conn net.Conn) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	_, _ = io.Copy(io.Discard, conn)
	_ = conn.Close()
}
