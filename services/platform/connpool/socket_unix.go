//go:build unix

package connpool

import "syscall"

func (s *socket) readOne(fd uintptr) bool {
	var one [1]byte
	_, err := syscall.Read(int(fd), one[:])
	s.empty = err == syscall.EAGAIN
	return true
}
