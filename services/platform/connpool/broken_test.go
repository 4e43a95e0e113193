package connpool_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/platform/connpool"
)

// The end of a context interrupts every kind of wait, with the context's cause, even if the server keeps the connection
// open.
func TestContextEnds(t *testing.T) {
	cause := errors.New("the caller left")
	for name, tt := range map[string]struct{ words, body string }{
		"before the head": {"", "question"},
		"in the head":     {"HTTP/1.1 200", "question"},
		"in the body":     {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ntext", "question"},
		"while it sends":  {"", strings.Repeat("x", 64<<20)},
	} {
		for by, transport := range transports(t) {
			t.Run(name+"/"+by, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				left := make(chan struct{})
				url, _ := converse(t, func(c net.Conn, from *bufio.Reader) {
					_, _ = from.ReadByte()
					_, _ = io.WriteString(c, tt.words)
					if name != "in the body" {
						cancel(cause)
					}
					select {
					case <-left:
					case <-time.After(patience):
						t.Error("the caller waits on")
					}
				})
				response, err := post(ctx, t, transport, url, tt.body)
				if err == nil {
					_, _ = io.ReadFull(response.Body, make([]byte, 4))
					cancel(cause)
					_, err = io.ReadAll(response.Body)
					_ = response.Body.Close()
				}
				close(left)
				if !errors.Is(err, cause) {
					t.Errorf("err = %v, want %v", err, cause)
				}
			})
		}
	}
}

// A body may be closed by one goroutine while another reads from it.
func TestCloseWhileReading(t *testing.T) {
	for by, transport := range transports(t) {
		t.Run(by, func(t *testing.T) {
			gone := make(chan struct{})
			url, _ := converse(t, func(c net.Conn, from *bufio.Reader) {
				_, _ = http.ReadRequest(from)
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ntext")
				_, _ = io.Copy(io.Discard, from)
				close(gone)
			})
			response, err := post(t.Context(), t, transport, url, "") //nolint:bodyclose // It is, below.
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(response.Body, make([]byte, 4)); err != nil {
				t.Fatal(err)
			}
			read := make(chan error)
			go func() {
				_, err := response.Body.Read(make([]byte, 4))
				read <- err
			}()
			_ = response.Body.Close()
			if err := <-read; err == nil || errors.Is(err, io.EOF) {
				t.Errorf("the reader was told %v", err)
			}
			<-gone
		})
	}
}

// The early refusal of a server is returned, also if the server reads no more of the request. (net/http sometimes
// returns the broken connection instead.)
func TestRefusalWhileSending(t *testing.T) {
	url, _ := converse(t, func(c net.Conn, from *bufio.Reader) {
		_, _ = from.ReadByte()
		_, _ = io.WriteString(c, "HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 4\r\n\r\ntext")
		_, _ = io.CopyN(io.Discard, from, 1<<20)
	})
	response, err := post(t.Context(), t, connpool.New(connpool.Options{}), url, strings.Repeat("x", 32<<20))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if text, err := io.ReadAll(response.Body); response.StatusCode != http.StatusRequestEntityTooLarge || string(text) != "text" {
		t.Errorf("status %d, %s, %v", response.StatusCode, text, err)
	}
}

// If the request's body fails, its error is returned at once, without waiting for a response.
func TestBodyFails(t *testing.T) {
	failed := errors.New("no more of it")
	for by, transport := range transports(t) {
		t.Run(by, func(t *testing.T) {
			url, _ := script(t, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			reader, writer := io.Pipe()
			_ = writer.CloseWithError(failed)
			r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, url, reader)
			response, err := transport.RoundTrip(r)
			if err == nil {
				_ = response.Body.Close()
			}
			if err == nil || !strings.Contains(err.Error(), failed.Error()) {
				t.Errorf("err = %v", err)
			}
		})
	}
}
