package pgdb

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/multitracer"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/fairshare"
)

const (
	// connShare is the percentage of a pool's connections that one organization's calls may hold.
	connShare = 50
	// connWait is how long a call waits for its organization's turn.
	connWait = 5 * time.Second
	// connBusy is the error text of a call whose turn doesn't come in time.
	connBusy = "too many of the organization's calls wait for the database; try again later"
)

// share divides a pool's connections between the organizations whose calls use them. pgxpool calls it as a tracer:
// before it takes a connection for a call, once it has one, and before the connection goes back to the pool. A call
// waits in share's line, which takes turns among the organizations, and not in the pool's, which would serve all calls
// in the order in which they came. The organization is the context's caller's; work without one doesn't wait in line.
type share struct{ places *fairshare.Places }

// divide gives each organization a share of the connections that a pool with the configuration will have.
func divide(cfg *pgxpool.Config) {
	tracer := &multitracer.Tracer{}
	if cfg.ConnConfig.Tracer != nil {
		tracer = multitracer.New(cfg.ConnConfig.Tracer)
	}
	s := share{fairshare.NewPlaces(int(cfg.MaxConns), connShare)}
	tracer.PoolAcquireTracers = append(tracer.PoolAcquireTracers, s)
	tracer.PoolReleaseTracers = append(tracer.PoolReleaseTracers, s)
	cfg.ConnConfig.Tracer = tracer
}

// placeKey is the key of an acquisition in its connection's custom data.
const placeKey = "switchyard.place"

// acquisition is the context in which a pool takes a connection for a call whose organization has a place.
type acquisition struct {
	context.Context //nolint:containedctx // It is a context itself.

	organization string
}

// refusal is the context of a call whose organization's turn didn't come. The pool returns its error.
type refusal struct {
	context.Context //nolint:containedctx // It is a context itself.

	err error
}

// Done implements context.Context.
func (refusal) Done() <-chan struct{} { return ended }

// Err implements context.Context.
func (r refusal) Err() error { return r.err }

var ended = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// TraceAcquireStart implements pgxpool.AcquireTracer: it waits for a place.
func (s share) TraceAcquireStart(
	ctx context.Context, _ *pgxpool.Pool, _ pgxpool.TraceAcquireStartData,
) context.Context {
	organization := caller.From(ctx).Organization
	if organization == "" {
		return ctx
	}
	err := s.places.AcquireWithin(ctx, organization, connWait, connBusy)
	switch {
	case err == nil:
		return &acquisition{ctx, organization}
	case ctx.Err() != nil:
		return ctx
	}
	return refusal{ctx, err}
}

// TraceAcquireEnd implements pgxpool.AcquireTracer: the connection keeps the place.
func (s share) TraceAcquireEnd(ctx context.Context, _ *pgxpool.Pool, data pgxpool.TraceAcquireEndData) {
	a, ok := ctx.(*acquisition)
	switch {
	case !ok:
	case data.Conn == nil:
		s.places.Release(a.organization)
	default:
		data.Conn.PgConn().CustomData()[placeKey] = a
	}
}

// TraceRelease implements pgxpool.ReleaseTracer: it gives the place back.
func (s share) TraceRelease(_ *pgxpool.Pool, data pgxpool.TraceReleaseData) {
	values := data.Conn.PgConn().CustomData()
	if a, ok := values[placeKey].(*acquisition); ok {
		delete(values, placeKey)
		s.places.Release(a.organization)
	}
}
