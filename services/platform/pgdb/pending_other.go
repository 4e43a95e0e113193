//go:build !unix

package pgdb

import "net"

// hasPendingData can't look at a socket on this platform.
func hasPendingData(net.Conn) bool { return false }
