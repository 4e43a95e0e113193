package upstream

import (
	"context"
	"encoding/json"

	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// Log receives the log messages that a server sends while it answers a request.
type Log struct {
	// Level is the least severe level that is wanted. A server of a session is asked for the least severe one that any of
	// the session's callers wants: of what it sends, the messages of the level are passed on.
	Level string
	// Receive gets the parameters of a message as the server sent them, on the caller's goroutine; nil for none. They are
	// valid until it returns.
	Receive func(params json.RawMessage)
}

// Bounds of the messages that are passed on, for one request and in bytes.
const (
	maxLogged     = 1000
	maxLogMessage = 64 << 10
)

// demand asks the server of a session for log messages of a level, unless it was asked for them before. A server that
// doesn't answer, or refuses, sends what it sends.
func (c *Client) demand(ctx context.Context, p *peer, s *session, level string) {
	wanted := wire.Severities(level)
	for {
		asked := s.severities.Load()
		if !s.logs || wanted <= asked {
			return
		}
		if s.severities.CompareAndSwap(asked, wanted) {
			break
		}
	}
	ctx, cancel := context.WithTimeout(ctx, noticeTime)
	defer cancel()
	var params object
	params.addText("level", level)
	_, _ = c.exchange(ctx, p, s, c.newRequest(s, wire.MethodSetLevel, params, about{}), nil)
}

// pass passes a log message on, if it is wanted. One that can't be read is left out.
func (v *conversation) pass(params json.RawMessage) {
	if v.log.Receive == nil || len(params) > maxLogMessage || v.logged == maxLogged {
		return
	}
	level, data := -1, false
	wire.Members(orEmpty(params), func(name string, value []byte) bool {
		switch name {
		case "level":
			text, _ := wire.Text(value)
			level = wire.Level(text)
		case "data":
			data = true
		}
		return true
	})
	if !data || level < 0 || level < wire.Level(v.log.Level) {
		return
	}
	v.logged++
	v.log.Receive(params)
}
