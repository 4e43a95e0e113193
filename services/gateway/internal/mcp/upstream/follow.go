package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// Follow is a stream of notices of a server that resources have changed.
type Follow struct {
	// Organization is the one that follows. Organizations share no session.
	Organization string
	URIs         []string
	// Begun is called once with those of URIs of which the server sends notices, Updated for each notice with the URI in
	// it: one of those, or of a part of it. Both are called on the caller's goroutine.
	Begun   func(uris []string)
	Updated func(uri string)
}

// errNoFollow is the error of a server of sessions that is asked for notices of tasks.
var errNoFollow = &Error{Cause: CauseRefused, Text: "the server's version has no streams of notices"}

// errOfSession is the error of a server of sessions, which knows no subscriptions/listen.
var errOfSession = errors.New("a server of sessions")

// Follow receives notices until ctx, the server or a bound ends the stream. The errors are those of Call; nil means that
// the server has ended it.
func (c *Client) Follow(ctx context.Context, server *toolserver.Server, f *Follow) error {
	p, err := c.peer(ctx, server, f.Organization, nil)
	if err != nil {
		return err
	}
	err = c.listen(ctx, p, f.receive, "resourceSubscriptions", f.URIs, nil)
	if errors.Is(err, errOfSession) {
		return c.subscribe(ctx, p, f)
	}
	return err
}

// listen receives notices of what one member of a subscription names, until the stream ends. The error of a server of
// sessions is errOfSession.
func (c *Client) listen(ctx context.Context, p *peer, receive func(*wire.Message), member string, of []string, capabilities json.RawMessage) error {
	talk := func() *conversation { return &conversation{notice: receive} }
	_, _, err := c.do(ctx, p, talk, func(s *session) (*request, error) {
		if !s.modern {
			return nil, errOfSession
		}
		var wanted, params object
		wanted.add(member, list(of))
		params.add("notifications", wanted.end())
		return c.newRequest(s, wire.MethodListen, params, about{capabilities: capabilities}), nil
	})
	return err
}

// list returns texts as an array.
func list(texts []string) []byte {
	out := []byte{'['}
	for i, text := range texts {
		if i > 0 {
			out = append(out, ',')
		}
		out = jsontext.AppendText(out, text)
	}
	return append(out, ']')
}

// receive takes a notification of the stream.
func (f *Follow) receive(m *wire.Message) {
	switch m.Method {
	case wire.MethodListening:
		if f.Begun != nil {
			f.Begun(acknowledged(m.Params, "resourceSubscriptions", f.URIs))
			f.Begun = nil
		}
	case wire.MethodUpdated:
		var uri string
		wire.Members(orEmpty(m.Params), func(name string, value []byte) bool {
			if name == "uri" {
				uri, _ = wire.Text(value)
			}
			return true
		})
		f.update(uri)
	}
}

// update passes a notice on, if it is of what is followed.
func (f *Follow) update(uri string) {
	if IsURI(uri) && f.Begun == nil && Covers(f.URIs, uri) {
		f.Updated(uri)
	}
}

// Covers reports whether a URI is one of several, or of a part of one.
func Covers(uris []string, uri string) bool {
	for _, whole := range uris {
		if rest, ok := strings.CutPrefix(uri, whole); ok && (rest == "" || strings.HasSuffix(whole, "/") || strings.ContainsAny(rest[:1], "/?#")) {
			return true
		}
	}
	return false
}

// acknowledged returns which of several names an acknowledgement has in a member.
func acknowledged(params json.RawMessage, member string, wanted []string) (of []string) {
	has := make(map[string]bool)
	wire.Members(orEmpty(params), func(name string, value []byte) bool {
		if name == "notifications" {
			wire.Members(value, func(name string, value []byte) bool {
				if name == member {
					wire.Elements(value, func(value []byte) bool {
						text, _ := wire.Text(value)
						has[text] = true
						return len(has) < MaxItems
					})
				}
				return true
			})
		}
		return true
	})
	for _, name := range wanted {
		if has[name] {
			of = append(of, name)
		}
	}
	return of
}
