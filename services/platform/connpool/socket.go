package connpool

import (
	"net"
	"os"
	"syscall"
)

// socket is a connection below TLS. It knows whether TLS has read whole records.
type socket struct {
	net.Conn

	raw syscall.RawConn // nil without a descriptor
	// look reads a byte without waiting; empty is set where there was none, spoke where
	// there was one.
	look         func(fd uintptr) bool
	empty, spoke bool
	// dry makes Read fail where it would ask the network.
	dry bool
	// header and missing are what was read of a TLS record's header, and what is
	// missing of its body.
	header  []byte
	missing int
}

func newSocket(made net.Conn) *socket {
	s := &socket{Conn: made, header: make([]byte, 0, recordHeader)}
	if described, ok := made.(syscall.Conn); ok {
		s.raw, _ = described.SyscallConn() // Without one it is not looked into.
	}
	s.look = s.readOne
	return s
}

// recordHeader is the size of a TLS record's header; its last two bytes are the
// length of the record.
const recordHeader = 5

// Read follows the records.
func (s *socket) Read(p []byte) (int, error) {
	if s.dry {
		return 0, os.ErrDeadlineExceeded // TLS takes it for a passing failure.
	}
	n, err := s.Conn.Read(p)
	s.follow(p[:n])
	return n, err
}

func (s *socket) follow(p []byte) {
	for len(p) > 0 {
		if s.missing > 0 {
			n := min(s.missing, len(p))
			s.missing, p = s.missing-n, p[n:]
			continue
		}
		n := min(recordHeader-len(s.header), len(p))
		s.header, p = append(s.header, p[:n]...), p[n:]
		if len(s.header) == recordHeader {
			s.missing, s.header = int(s.header[3])<<8|int(s.header[4]), s.header[:0]
		}
	}
}

// whole reports whether what was read ends with a TLS record.
func (s *socket) whole() bool { return len(s.header) == 0 && s.missing == 0 }

// silent reports whether the connection is open and has nothing to be read. A
// byte that is there is lost. It costs one system call. A connection without a
// descriptor counts as silent.
func (s *socket) silent() bool {
	if s.raw == nil {
		return true
	}
	return s.raw.Read(s.look) == nil && s.empty
}
