package pgdb

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/multitracer"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type tracedKey struct{}

// acquireTracer stands for the tracer that makes spans. It counts the acquisitions that it saw start and end.
type acquireTracer struct {
	pgx.QueryTracer

	ended int
}

func (*acquireTracer) TraceAcquireStart(
	ctx context.Context, _ *pgxpool.Pool, _ pgxpool.TraceAcquireStartData,
) context.Context {
	return context.WithValue(ctx, tracedKey{}, true)
}

func (a *acquireTracer) TraceAcquireEnd(ctx context.Context, _ *pgxpool.Pool, _ pgxpool.TraceAcquireEndData) {
	if ctx.Value(tracedKey{}) != nil {
		a.ended++
	}
}

// A call whose organization's turn doesn't come in time gets 429 with Retry-After and takes no place. An acquisition that
// fails gives its place back. Another tracer sees all acquisitions.
func TestWaitForAConnectionIsBounded(t *testing.T) {
	cfg, err := pgxpool.ParseConfig("postgres://localhost/db?pool_max_conns=2")
	if err != nil {
		t.Fatal(err)
	}
	spans := &acquireTracer{}
	cfg.ConnConfig.Tracer = spans
	divide(cfg)
	pool, _ := cfg.ConnConfig.Tracer.(*multitracer.Tracer)
	synctest.Test(t, func(t *testing.T) {
		start := func(ctx context.Context, organization string) context.Context {
			ctx = caller.With(ctx, caller.Caller{Organization: organization})
			return pool.TraceAcquireStart(ctx, nil, pgxpool.TraceAcquireStartData{})
		}
		end := func(ctx context.Context) {
			pool.TraceAcquireEnd(ctx, nil, pgxpool.TraceAcquireEndData{Err: errors.New("no connection")})
		}
		first := start(t.Context(), "acme")
		for range 2 {
			begun := time.Now()
			second := start(t.Context(), "acme")
			e, ok := errors.AsType[*apierr.Error](second.Err())
			if !ok || e.Kind != apierr.KindRateLimited || e.RetryAfter <= 0 {
				t.Fatalf("error %v, want 429 with Retry-After", second.Err())
			}
			<-second.Done()
			if waited := time.Since(begun); waited != connWait {
				t.Errorf("refused after %v, want %v", waited, connWait)
			}
			end(second)
		}
		brief, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if third := start(brief, "acme"); !errors.Is(third.Err(), context.DeadlineExceeded) {
			t.Errorf("a call that ran out of time in line: %v", third.Err())
		}
		begun := time.Now()
		for _, organization := range []string{"bolt", "", ""} {
			end(start(t.Context(), organization))
		}
		end(first)
		end(start(t.Context(), "acme"))
		if waited := time.Since(begun); waited > 0 {
			t.Errorf("waited %v for what is free", waited)
		}
	})
	if spans.ended != 7 {
		t.Errorf("the other tracer saw %d acquisitions end, want 7", spans.ended)
	}
}
