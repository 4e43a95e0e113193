package testkit

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

// administrator holds one connection per Postgres server, on which all tests of this process create and drop databases. A
// new connection for each would cost a fork of the server.
type administrator struct {
	mu    sync.Mutex
	conns map[string]*pgx.Conn // by the server's URL
}

var admin = administrator{conns: map[string]*pgx.Conn{}}

// use calls do with the connection to a server. It holds a lock while do runs, so tests take turns.
func (a *administrator) use(ctx context.Context, server string, do func(*pgx.Conn) error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	conn := a.conns[server]
	if conn == nil || conn.Ping(ctx) != nil { // A test may have terminated it or restarted the server.
		made, err := pgx.Connect(ctx, server)
		if err != nil {
			return err
		}
		conn, a.conns[server] = made, made
	}
	return do(conn)
}

// execute executes a statement on a server, and ends the test if that fails.
func execute(ctx context.Context, tb testing.TB, server, statement string) {
	tb.Helper()
	if err := admin.use(ctx, server, func(conn *pgx.Conn) error { return statements(ctx, conn, statement) }); err != nil {
		tb.Fatalf("%s: %v", statement, err)
	}
}
