// Package postgres stores the gateway's durable state in its schema. It implements the store interfaces of the packages
// that own the data: the ledger and its feed, budget reservations, runs, organizations, approvals, trust, credentials,
// traces, reconciliations, the operators' settings with their audit log, and the epochs of the response cache.
//
// The SQL is in queries and copy; package dbsql is generated from it. internal/app builds the stores.
package postgres

import (
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// optionalTime returns NULL for the zero time.
func optionalTime(t time.Time) pgtype.Timestamptz {
	return pgtype.Timestamptz{Time: t, Valid: !t.IsZero()}
}

// orMissing replaces "no rows" by the domain's error.
func orMissing(err, missing error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return missing
	}
	return err
}

// never returns the zero time for the epoch, which stands for it in queries.
func never(t time.Time) time.Time {
	if t.Unix() == 0 {
		return time.Time{}
	}
	return t
}

// storedTime returns a time with the precision of the store, so that a response equals what is read later.
func storedTime(t time.Time) time.Time { return t.Truncate(time.Microsecond) }

// notNull returns bytes that are stored as an empty bytea if they are nil, which the driver would store as NULL.
func notNull(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
