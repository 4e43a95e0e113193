package wire_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/vendors/network"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/apierr"
)

// babble is a vendor that reads a request's head and then sends what say writes, until its caller has disconnected.
func babble(t *testing.T, say func(w io.Writer, r *http.Request) error) *url.URL {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(time.Minute))
				r, err := http.ReadRequest(bufio.NewReader(c))
				if err == nil {
					_, _ = io.CopyN(io.Discard, r.Body, r.ContentLength)
					_ = say(c, r)
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		all.Wait()
	})
	return &url.URL{Scheme: "http", Host: listener.Addr().String()}
}

func plain(e *provider.Error, _ http.Header, _ []byte) { e.Class = apierr.ClassServerError }

// Endless heads end as failures of the vendor, within bounded memory.
func TestEndlessHeads(t *testing.T) {
	again := func(text string) func(io.Writer, *http.Request) error {
		return func(w io.Writer, _ *http.Request) (err error) {
			for err == nil {
				_, err = io.WriteString(w, text)
			}
			return err
		}
	}
	after := func(head string, more func(io.Writer, *http.Request) error) func(io.Writer, *http.Request) error {
		return func(w io.Writer, r *http.Request) error {
			_, _ = io.WriteString(w, head)
			return more(w, r)
		}
	}
	number := 0
	for name, say := range map[string]func(io.Writer, *http.Request) error{
		"interim answers": again("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"),
		"continues":       again("HTTP/1.1 100 Continue\r\n\r\n"),
		"one header":      after("HTTP/1.1 200 OK\r\nX-A: ", again(strings.Repeat("x", 1<<10))),
		"many headers": after("HTTP/1.1 200 OK\r\n", func(w io.Writer, _ *http.Request) (err error) {
			for ; err == nil; number++ {
				_, err = fmt.Fprintf(w, "X-%d: y\r\n", number)
			}
			return err
		}),
		"a status line": after("HTTP/1.1 200 ", again(strings.Repeat("x", 1<<10))),
	} {
		t.Run(name, func(t *testing.T) {
			transport := network.NewTransport(time.Second)
			defer transport.CloseIdleConnections()
			caller := wire.Caller{Transport: transport, Classify: plain, Now: time.Now}
			sent := make(chan int64, 1)
			at := babble(t, func(w io.Writer, r *http.Request) error {
				counted := &counting{w: w}
				err := say(counted, r)
				sent <- counted.n
				return err
			})
			_, err := caller.Post(t.Context(), at, http.Header{}, struct{}{}) //nolint:bodyclose // There is none.
			if e, ok := errors.AsType[*provider.Error](err); !ok || e.Class != apierr.ClassTransient {
				t.Fatalf("error %v, want a failure of the connection", err)
			}
			transport.CloseIdleConnections()
			if n := <-sent; n > 16<<20 {
				t.Errorf("%d bytes of a head were taken", n)
			}
		})
	}
}

type counting struct {
	w io.Writer
	n int64
}

func (c *counting) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// No compression is requested, and an answer that is compressed all the same is refused before it is read: a kilobyte
// may expand to a gigabyte.
func TestCompressedAnswersAreRefused(t *testing.T) {
	var bomb bytes.Buffer
	packer := gzip.NewWriter(&bomb)
	_, _ = packer.Write(make([]byte, 16<<20))
	_ = packer.Close()
	for _, coding := range []string{"gzip", "br", "gzip, gzip"} {
		t.Run(coding, func(t *testing.T) {
			transport := network.NewTransport(time.Second)
			defer transport.CloseIdleConnections()
			caller := wire.Caller{Transport: transport, Classify: plain, Now: time.Now}
			at := babble(t, func(w io.Writer, r *http.Request) error {
				if asked := r.Header.Get("Accept-Encoding"); asked != "" && asked != "identity" {
					t.Errorf("asks for %q", asked)
				}
				_, err := fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Encoding: %s\r\nContent-Length: %d\r\n\r\n%s", coding, bomb.Len(), bomb.String())
				return err
			})
			response, err := caller.Post(t.Context(), at, http.Header{}, struct{}{})
			if err == nil {
				_ = response.Body.Close()
			}
			if e, ok := errors.AsType[*provider.Error](err); !ok || e.Class != apierr.ClassServerError {
				t.Errorf("error %v, want a failure of the vendor", err)
			}
		})
	}
}

// Of an error's body only as much is read and charged as is needed to classify it.
func TestErrorBodiesAreBounded(t *testing.T) {
	transport := network.NewTransport(time.Second)
	defer transport.CloseIdleConnections()
	read := 0
	caller := wire.Caller{Transport: transport, Now: time.Now, Classify: func(e *provider.Error, _ http.Header, body []byte) {
		e.Class, read = apierr.ClassServerError, len(body)
	}}
	at := babble(t, func(w io.Writer, _ *http.Request) (err error) {
		_, err = io.WriteString(w, "HTTP/1.1 500 Internal Server Error\r\n\r\n")
		for err == nil {
			_, err = io.WriteString(w, strings.Repeat("[", 32<<10))
		}
		return err
	})
	budget := memory.New(1<<20, 100)
	hold := budget.Open("acme", 0)
	_, err := caller.Post(memory.NewContext(t.Context(), hold), at, http.Header{}, struct{}{}) //nolint:bodyclose // There is none.
	if e, ok := errors.AsType[*provider.Error](err); !ok || e.Status != 500 {
		t.Errorf("error %v", err)
	}
	if read != 64<<10 || budget.Held() != 0 {
		t.Errorf("%d bytes were read and %d are charged, want 65536 and none", read, budget.Held())
	}
}
