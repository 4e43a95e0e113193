package testkit

import (
	"bufio"
	"io"
	"net"
	"net/url"
	"testing"
)

// A cable relays data until it is cut, refuses connections until it is mended, and then relays again.
func TestCable(t *testing.T) {
	listener := listen(t)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(conn, conn); _ = conn.Close() }()
		}
	}()
	cable := NewCable(t, "echo://"+listener.Addr().String()+"/path")
	u, err := url.Parse(cable.URL)
	if err != nil || u.Path != "/path" || u.Host == listener.Addr().String() {
		t.Fatalf("URL %s, %v", cable.URL, err)
	}
	dial := func() net.Conn {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", u.Host)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	carries := func(conn net.Conn) bool {
		_, _ = io.WriteString(conn, "hello\n")
		line, err := bufio.NewReader(conn).ReadString('\n')
		return err == nil && line == "hello\n"
	}
	first := dial()
	if !carries(first) {
		t.Error("a whole cable carries nothing")
	}
	cable.Cut()
	if carries(first) {
		t.Error("an open connection outlives the cut")
	}
	if carries(dial()) {
		t.Error("a new connection passes a cut cable")
	}
	cable.Mend()
	if !carries(dial()) {
		t.Error("a mended cable carries nothing")
	}
}

func TestFreeAddress(t *testing.T) {
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", FreeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
}
