package tunnel_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"switchyard.dev/services/platform/tunnel"
)

// serve answers one CONNECT on the other end of a connection, and echoes what follows.
func serve(t *testing.T, conn net.Conn, answer string, asked chan<- *http.Request) {
	t.Helper()
	in := bufio.NewReader(conn)
	request, err := http.ReadRequest(in)
	if err != nil {
		_ = conn.Close()
		return
	}
	asked <- request
	if _, err := io.WriteString(conn, answer); err != nil {
		return
	}
	_, _ = io.Copy(conn, in)
	_ = conn.Close()
}

// proxied returns a proxy that answers each CONNECT with a text, what it was asked for, and the address it was dialed at.
func proxied(t *testing.T, raw, answer string) (p *tunnel.Proxy, asked chan *http.Request, dialed *string) {
	t.Helper()
	asked, dialed = make(chan *http.Request, 1), new(string)
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	p, err = tunnel.New(u, func(_ context.Context, _, address string) (net.Conn, error) {
		*dialed = address
		here, there := net.Pipe()
		go serve(t, there, answer, asked)
		return here, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return p, asked, dialed
}

// A target is requested by its name, with the proxy's own credentials, and the connection then belongs to the target.
func TestDial(t *testing.T) {
	p, asked, dialed := proxied(t, "http://user:pass@proxy.example", "HTTP/1.1 200 Connected\r\n\r\n")
	conn, err := p.Dial(t.Context(), "vendor.example:443")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	request := <-asked
	if *dialed != "proxy.example:80" || request.Method != http.MethodConnect || request.Host != "vendor.example:443" || request.Header.Get("Proxy-Authorization") != "Basic dXNlcjpwYXNz" {
		t.Errorf("dialed %s, asked %s %s %v", *dialed, request.Method, request.Host, request.Header)
	}
	if _, err := io.WriteString(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	echo := make([]byte, 5)
	if _, err := io.ReadFull(conn, echo); err != nil || string(echo) != "hello" {
		t.Errorf("echo %q, %v", echo, err)
	}
}

// Whatever a proxy answers, the error says whose fault it is and repeats none of its bytes.
func TestAnswers(t *testing.T) {
	for name, tt := range map[string]struct {
		answer string
		want   error
	}{
		"refuses the credentials":  {"HTTP/1.1 407 canary\r\n\r\n", tunnel.ErrProxy},
		"forbids the target":       {"HTTP/1.1 403 canary\r\n\r\n", tunnel.ErrProxy},
		"can't reach the target":   {"HTTP/1.1 502 canary\r\n\r\n", tunnel.ErrTarget},
		"is no proxy":              {"SSH-2.0-canary\r\n\r\n", tunnel.ErrProxy},
		"never ends its header":    {"HTTP/1.1 200 OK\r\nCanary: " + strings.Repeat("x", 64<<10), tunnel.ErrProxy},
		"speaks before the target": {"HTTP/1.1 200 OK\r\n\r\ncanary", tunnel.ErrProxy},
	} {
		t.Run(name, func(t *testing.T) {
			p, _, _ := proxied(t, "http://proxy.example:3128", tt.answer)
			_, err := p.Dial(t.Context(), "vendor.example:443")
			if !errors.Is(err, tt.want) || strings.Contains(err.Error(), "canary") {
				t.Errorf("err = %v, want %v", err, tt.want)
			}
		})
	}
}

// Canceling a call ends the exchange with a silent proxy.
func TestCancel(t *testing.T) {
	p, asked, _ := proxied(t, "http://proxy.example", "")
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-asked; cancel() }()
	if _, err := p.Dial(ctx, "vendor.example:443"); err == nil {
		t.Error("a dial that its caller left has a connection")
	}
}

func TestNewRefuses(t *testing.T) {
	for _, raw := range []string{"ftp://p", "http:///", "http://u:canary@p/path", "http://u:canary@p?q=1", "http://u:canary@p#f", "//p"} {
		u, err := url.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tunnel.New(u, nil); err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: err = %v, want one without the password", raw, err)
		}
	}
}
