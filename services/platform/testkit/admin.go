package testkit

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
)

// administrator has the connections by which the tests of this process create and drop databases, one to a server: each new
// connection is a new process of Postgres.
type administrator struct {
	mu    sync.Mutex
	conns map[string]*pgx.Conn // by the server's URL
}

var admin = administrator{conns: map[string]*pgx.Conn{}}

// use calls do with the connection to a server. Other tests wait meanwhile.
func (a *administrator) use(ctx context.Context, server string, do func(*pgx.Conn) error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	conn := a.conns[server]
	if conn == nil || conn.Ping(ctx) != nil { // A test may have ended it, or the server.
		made, err := pgx.Connect(ctx, server)
		if err != nil {
			return err
		}
		conn, a.conns[server] = made, made
	}
	return do(conn)
}

// execute executes a statement on a server. The test fails if it can't.
func execute(ctx context.Context, tb testing.TB, server, statement string) {
	tb.Helper()
	if err := admin.use(ctx, server, func(conn *pgx.Conn) error { return statements(ctx, conn, statement) }); err != nil {
		tb.Fatalf("%s: %v", statement, err)
	}
}
