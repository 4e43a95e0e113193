package testkit

import (
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Value returns the only value of the only row that the query returns, or fails the test.
func Value[T any](tb testing.TB, pool *pgxpool.Pool, query string, args ...any) (v T) {
	tb.Helper()
	if err := pool.QueryRow(tb.Context(), query, args...).Scan(&v); err != nil {
		tb.Fatalf("%s: %v", query, err)
	}
	return v
}

// Exec runs the statement, or fails the test.
func Exec(tb testing.TB, pool *pgxpool.Pool, statement string, args ...any) {
	tb.Helper()
	if _, err := pool.Exec(tb.Context(), statement, args...); err != nil {
		tb.Fatalf("%s: %v", statement, err)
	}
}
