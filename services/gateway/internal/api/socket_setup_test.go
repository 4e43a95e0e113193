package api_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/tidwall/gjson"
)

// client is a client's WebSocket.
type client struct {
	*websocket.Conn
}

// connects opens a WebSocket as the edge does, for the organization acme unless a header (name, value, …) sets another.
func (b *bench) connects(t *testing.T, headers ...string) *client {
	t.Helper()
	conn, refused := b.dial(t, headers...)
	if conn == nil {
		t.Fatalf("refused with %d", refused.status)
	}
	return conn
}

// dial opens a WebSocket, or returns with what it was refused.
func (b *bench) dial(t *testing.T, headers ...string) (*client, answer) {
	t.Helper()
	header := b.request(t.Context(), t, http.MethodGet, responsesPath, "", headers...).Header
	conn, response, err := websocket.Dial(t.Context(), b.http.URL+responsesPath, &websocket.DialOptions{HTTPClient: b.http.Client(), HTTPHeader: header})
	if err != nil {
		defer func() { _ = response.Body.Close() }()
		return nil, answer{response.StatusCode, readAll(t, response.Body), response.Header}
	}
	conn.SetReadLimit(-1)
	t.Cleanup(func() { _ = conn.CloseNow() })
	return &client{conn}, answer{}
}

func (c *client) send(t *testing.T, frame string) {
	t.Helper()
	if err := c.Write(t.Context(), websocket.MessageText, []byte(frame)); err != nil {
		t.Fatal(err)
	}
}

// next returns the next event.
func (c *client) next(t *testing.T) gjson.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	kind, text, err := c.Read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if kind != websocket.MessageText || !gjson.ParseBytes(text).IsObject() || !strings.HasPrefix(string(text), `{"type":"`) {
		t.Fatalf("frame %v %s", kind, text)
	}
	return gjson.ParseBytes(text)
}

// until returns the next event of one of some types.
func (c *client) until(t *testing.T, types ...string) gjson.Result {
	t.Helper()
	for {
		event := c.next(t)
		for _, kind := range types {
			if event.Get("type").Str == kind {
				return event
			}
		}
		if event.Get("type").Str == "error" {
			t.Fatalf("%s, want %v", event.Raw, types)
		}
	}
}

// asks sends a request and returns its terminal event.
func (c *client) asks(t *testing.T, frame string) gjson.Result {
	t.Helper()
	c.send(t, frame)
	return c.until(t, "response.completed")
}

// refused sends a frame and returns the error with which it is answered.
func (c *client) refused(t *testing.T, frame string) gjson.Result {
	t.Helper()
	c.send(t, frame)
	return c.until(t, "error")
}

// ends returns the code with which the gateway closes the connection.
func (c *client) ends(t *testing.T) websocket.StatusCode {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		if _, _, err := c.Read(ctx); err != nil {
			return websocket.CloseStatus(err)
		}
	}
}
