package apierr

import (
	"errors"
	"io"
	"net"
	"strings"
)

const textUnreachable = "a service that is needed for this is not available"

// IsUnreachable reports whether err is that of a connection that was refused, broke, or ended in the middle of an answer,
// or of a database that is stopping, starting, at its connection limit, without room, or a standby, which only reads, or
// that refuses the credentials, as in the middle of a rotation (SQLSTATE; Postgres manual, appendix A). What was asked
// may have been done if the connection broke.
func IsUnreachable(err error) bool {
	if db, ok := errors.AsType[databaseError](err); ok {
		switch state := db.SQLState(); state {
		case "53300", "57P01", "57P02", "57P03": // too many connections; shutdown, crash; can't connect now
			return true
		case "53100", "53200", "25006": // disk full, out of memory; read-only transaction
			return true
		case "28000", "28P01": // not allowed to connect, wrong password
			return true
		default:
			return strings.HasPrefix(state, "08") // connection exception
		}
	}
	_, network := errors.AsType[*net.OpError](err)
	return network || errors.Is(err, io.ErrUnexpectedEOF)
}

// databaseError is what drivers of SQL databases return for an error of the server.
type databaseError interface {
	error
	SQLState() string
}
