//go:build unix

package connpool

import "syscall"

func (s *socket) readOne(fd uintptr) bool {
	var one [1]byte
	n, err := syscall.Read(int(fd), one[:])
	s.empty, s.spoke = err == syscall.EAGAIN, n > 0
	return true
}
