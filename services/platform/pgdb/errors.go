package pgdb

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5/pgconn"

	"switchyard.dev/services/platform/apierr"
)

// SQLSTATE codes (Postgres manual, appendix A).
const (
	codeUniqueViolation  = "23505"
	codeDeadlockDetected = "40P01"
	codeUndefinedTable   = "42P01"
	codeLockNotAvailable = "55P03"
)

// IsUniqueViolation reports whether err is a duplicate key in the named constraint or unique index. An empty name means
// any.
func IsUniqueViolation(err error, constraint string) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == codeUniqueViolation &&
		(constraint == "" || pgErr.ConstraintName == constraint)
}

// IsUnavailable reports whether err means that the database can't be used now but may be usable later: no connection, a
// broken one, credentials that are refused, as in the middle of a rotation, or a server that is stopping, starting, full
// or at its connection limit. A cancelled context and a slow statement are not among them.
func IsUnavailable(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	_, answered := errors.AsType[*pgconn.PgError](err)
	return apierr.IsUnreachable(err) || connecting && !answered || errors.Is(err, pgconn.ErrConnClosed)
}

// IsLockConflict reports whether Postgres aborted a transaction because of its locks: it was chosen to end a deadlock, or
// a lock was not granted within lock_timeout. The same transaction may succeed when it is tried again.
func IsLockConflict(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pgErr.Code == codeDeadlockDetected || pgErr.Code == codeLockNotAvailable)
}

func isUndefinedTable(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == codeUndefinedTable
}
