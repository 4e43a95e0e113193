//go:build unix

package connpool

import (
	"net"
	"syscall"
)

// silent tells whether a connection is open and has nothing to be read. It costs
// one system call. A connection without a descriptor counts as such.
func silent(c net.Conn) bool {
	described, ok := c.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := described.SyscallConn()
	if err != nil {
		return false
	}
	var read error
	err = raw.Read(func(fd uintptr) bool {
		var one [1]byte
		_, read = syscall.Read(int(fd), one[:])
		return true // It never waits.
	})
	return err == nil && read == syscall.EAGAIN
}
