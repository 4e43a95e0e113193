//go:build unix

package pgdb

import (
	"crypto/tls"
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// hasPendingData reports whether an idle connection has something to read, or has ended: a server that stops says so before it
// closes its connections. It takes no lock of a reader, and costs one system call.
func hasPendingData(conn net.Conn) bool {
	if secured, ok := conn.(*tls.Conn); ok {
		conn = secured.NetConn()
	}
	described, ok := conn.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := described.SyscallConn()
	if err != nil {
		return true
	}
	quiet := false
	err = raw.Control(func(fd uintptr) {
		var one [1]byte
		_, _, err := unix.Recvfrom(int(fd), one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		quiet = errors.Is(err, unix.EAGAIN)
	})
	return err != nil || !quiet
}
