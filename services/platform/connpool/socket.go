package connpool

import (
	"net"
	"os"
	"syscall"
)

// socket is the connection below TLS. It tracks whether the bytes read so far end with a complete TLS record.
type socket struct {
	net.Conn

	raw syscall.RawConn // nil for a connection without a descriptor
	// look reads a byte without blocking. It sets empty if there was none, gotByte if there was one.
	look           func(fd uintptr) bool
	empty, gotByte bool
	// noNetwork makes Read fail instead of reading from the network.
	noNetwork bool
	// header is what has been read of a TLS record's header. missing is how many bytes of its body have not been read.
	header  []byte
	missing int
}

func newSocket(made net.Conn) *socket {
	s := &socket{Conn: made, header: make([]byte, 0, recordHeader)}
	if described, ok := made.(syscall.Conn); ok {
		s.raw, _ = described.SyscallConn() // If it fails, the socket is never examined.
	}
	s.look = s.readOne
	return s
}

// recordHeader is the size of a TLS record's header in bytes. The last two hold the length of the record's body.
const recordHeader = 5

// Read reads from the connection and tracks TLS records.
func (s *socket) Read(p []byte) (int, error) {
	if s.noNetwork {
		return 0, os.ErrDeadlineExceeded // crypto/tls treats a timeout as temporary.
	}
	n, err := s.Conn.Read(p)
	s.trackRecords(p[:n])
	return n, err
}

func (s *socket) trackRecords(p []byte) {
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

// atRecordEnd reports whether the bytes read so far end with a complete TLS record.
func (s *socket) atRecordEnd() bool { return len(s.header) == 0 && s.missing == 0 }

// nothingToRead reports whether the connection is open and has no bytes to read. If there is a byte, it is consumed and
// lost. The check costs one system call. A connection without a descriptor counts as having nothing to read.
func (s *socket) nothingToRead() bool {
	if s.raw == nil {
		return true
	}
	return s.raw.Read(s.look) == nil && s.empty
}
