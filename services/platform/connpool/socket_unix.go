//go:build unix

package connpool

import "syscall"

// readOne reads one byte from a non-blocking socket.
func (s *socket) readOne(fd uintptr) bool {
	var one [1]byte
	n, err := syscall.Read(int(fd), one[:])
	s.empty, s.gotByte = err == syscall.EAGAIN, n > 0
	return true
}
