// Package outbox stores a service's house events in its Postgres until they are sent: the table house_event, which each
// service's own migrations create and into which its own statements record events.
package outbox

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"switchyard.dev/services/platform/houseevent"
)

//go:embed sql/take.sql
var take string

//go:embed sql/sent.sql
var sent string

//go:embed sql/postpone.sql
var postpone string

//go:embed sql/give_up.sql
var giveUp string

//go:embed sql/purge.sql
var purge string

//go:embed sql/waiting.sql
var waiting string

var _ houseevent.Outbox = (*Outbox)(nil)

// Outbox implements houseevent.Outbox.
type Outbox struct{ pool *pgxpool.Pool }

// New returns the Outbox of a pool's database.
func New(pool *pgxpool.Pool) *Outbox { return &Outbox{pool} }

// Take implements houseevent.Outbox.
func (o *Outbox) Take(ctx context.Context, limit int, lease time.Duration) ([]houseevent.Event, error) {
	rows, err := o.pool.Query(ctx, take, pgx.NamedArgs{"count": limit, "lease": lease})
	if err != nil {
		return nil, fmt.Errorf("take house events: %w", err)
	}
	events, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e houseevent.Event, err error) {
		err = row.Scan(&e.ID, &e.Organization, &e.Type, &e.Subject, &e.Data, &e.OccurredAt, &e.Attempts)
		return e, err
	})
	if err != nil {
		return nil, fmt.Errorf("take house events: %w", err)
	}
	return events, nil
}

// Sent implements houseevent.Outbox.
func (o *Outbox) Sent(ctx context.Context, ids []string) error {
	if _, err := o.pool.Exec(ctx, sent, pgx.NamedArgs{"event_ids": ids}); err != nil {
		return fmt.Errorf("mark house events sent: %w", err)
	}
	return nil
}

// Postpone implements houseevent.Outbox.
func (o *Outbox) Postpone(ctx context.Context, delays map[string]time.Duration) error {
	ids, after := make([]string, 0, len(delays)), make([]time.Duration, 0, len(delays))
	for id, delay := range delays {
		ids, after = append(ids, id), append(after, delay)
	}
	if _, err := o.pool.Exec(ctx, postpone, pgx.NamedArgs{"event_ids": ids, "delays": after}); err != nil {
		return fmt.Errorf("postpone house events: %w", err)
	}
	return nil
}

// GiveUp implements houseevent.Outbox.
func (o *Outbox) GiveUp(ctx context.Context, age time.Duration) (int, error) {
	done, err := o.pool.Exec(ctx, giveUp, pgx.NamedArgs{"age": age})
	if err != nil {
		return 0, fmt.Errorf("give up house events: %w", err)
	}
	return int(done.RowsAffected()), nil
}

// Purge implements houseevent.Outbox.
func (o *Outbox) Purge(ctx context.Context, limit int) (int, error) {
	done, err := o.pool.Exec(ctx, purge, pgx.NamedArgs{"count": limit})
	if err != nil {
		return 0, fmt.Errorf("purge house events: %w", err)
	}
	return int(done.RowsAffected()), nil
}

// Waiting returns how many events are not sent, and the age of the oldest.
func (o *Outbox) Waiting(ctx context.Context) (events int64, oldest time.Duration, err error) {
	if err := o.pool.QueryRow(ctx, waiting).Scan(&events, &oldest); err != nil {
		return 0, 0, fmt.Errorf("house events waiting: %w", err)
	}
	return events, oldest, nil
}
