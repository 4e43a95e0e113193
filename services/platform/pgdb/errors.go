package pgdb

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// SQLSTATE codes, Postgres manual, appendix A.
const (
	codeUniqueViolation    = "23505"
	codeUndefinedTable     = "42P01"
	codeTooManyConnections = "53300"
	codeAdminShutdown      = "57P01"
	codeCrashShutdown      = "57P02"
	codeCannotConnectNow   = "57P03"
	classConnection        = "08"
)

// IsUniqueViolation reports whether err is a duplicate key in the named
// constraint or unique index; an empty name stands for any.
func IsUniqueViolation(err error, constraint string) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == codeUniqueViolation &&
		(constraint == "" || pgErr.ConstraintName == constraint)
}

// IsUnavailable reports whether err says that the database can't be used now
// and may be later: no connection, one that broke, a server that stops, starts
// or is full. A caller who gave up, a slow statement or refused credentials
// are not.
func IsUnavailable(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pgErr.Code {
		case codeTooManyConnections, codeAdminShutdown, codeCrashShutdown, codeCannotConnectNow:
			return true
		default:
			return strings.HasPrefix(pgErr.Code, classConnection)
		}
	}
	_, connecting := errors.AsType[*pgconn.ConnectError](err)
	_, network := errors.AsType[*net.OpError](err)
	return connecting || network ||
		errors.Is(err, pgconn.ErrConnClosed) || errors.Is(err, io.ErrUnexpectedEOF)
}

func isUndefinedTable(err error) bool {
	pgErr, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pgErr.Code == codeUndefinedTable
}
