package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// About is what a server says of itself. All of it is the server's text: nothing may be decided by it.
type About struct {
	// Version is the version of the protocol that is spoken with the server.
	Version string
	// Name and ServerVersion are at most 200 bytes, Instructions at most 4 KiB.
	Name, ServerVersion, Instructions string
	// ListChanged reports whether it announces changes of its tools, and Subscribes whether sessions can subscribe to
	// resources.
	ListChanged, Subscribes bool
}

// maxName bounds a server's name, in bytes.
const maxName = 200

// maxSession bounds a server's session id, in bytes.
const maxSession = 1024

// shorten cuts a text to maxText bytes.
func shorten(text string) string { return cut(text, maxText) }

func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// open returns the session with a server. The first caller asks for the version; the others wait for it.
func (c *Client) open(ctx context.Context, p *peer) (*session, error) {
	if s := p.session.Load(); s != nil {
		return s, nil
	}
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, failed(ctx, ctx.Err(), false)
	}
	defer func() { <-p.turn }()
	if s := p.session.Load(); s != nil {
		return s, nil
	}
	if p.failure != nil && time.Since(p.failedAt) < pauseAfter && p.failedWith == p.used() {
		return nil, p.failure
	}
	bounded, cancel := context.WithTimeout(ctx, controlTime)
	defer cancel()
	s, err := c.negotiate(bounded, p)
	if err == nil {
		p.failure = nil
		p.session.Store(s)
		return s, nil
	}
	err = unsent(ctx, err)
	if ctx.Err() == nil {
		p.failure, p.failedAt, p.failedWith = err, time.Now(), p.used()
	}
	return nil, err
}

// unsent returns the error of a negotiation for the request that it was for, which was not sent.
func unsent(ctx context.Context, err error) error {
	if e, ok := errors.AsType[*wire.Error](err); ok {
		return &Error{Cause: CauseProtocol, Text: "the server refuses to begin, with error " + strconv.FormatInt(e.Code, 10), Err: err}
	}
	e := *failed(ctx, err, false)
	e.Sent = false
	return &e
}

// negotiate finds out which version a server speaks: it asks as Modern wants it, and begins a session where the answer
// is none of a modern server's.
func (c *Client) negotiate(ctx context.Context, p *peer) (*session, error) {
	s := &session{version: wire.Modern, modern: true}
	got, err := c.probe(ctx, p, s)
	switch e, refused := errors.AsType[*Error](err); {
	case refused && e.Cause == CauseRefused && isLegacyStatus(e.Status):
		return c.initialize(ctx, p)
	case err != nil:
		return nil, err
	case got.err == nil:
		return c.discovered(ctx, p, s, got)
	case got.err.Code == wire.CodeUnsupportedVersion && slices.Contains(supported(got.err.Data), wire.Modern):
		return nil, protocol("the server refuses a version that it says to support")
	case got.err.Code == wire.CodeUnsupportedVersion && slices.ContainsFunc(supported(got.err.Data), wire.IsLegacy):
		return c.initialize(ctx, p)
	case wire.IsModernCode(got.err.Code):
		return nil, got.err
	}
	return c.initialize(ctx, p)
}

// probe asks a server what it supports.
func (c *Client) probe(ctx context.Context, p *peer, s *session) (response, error) {
	if quick, ok := p.link.(interface{ probeTime() time.Duration }); ok {
		bounded, cancel := context.WithTimeout(ctx, quick.probeTime())
		defer cancel()
		got, err := c.exchange(bounded, p, s, c.newRequest(s, wire.MethodDiscover, object{}, about{}), nil)
		if bounded.Err() != nil && ctx.Err() == nil { // A legacy server may leave it unanswered.
			return response{err: &wire.Error{Code: wire.CodeMethodNotFound}}, nil
		}
		return got, err
	}
	return c.exchange(ctx, p, s, c.newRequest(s, wire.MethodDiscover, object{}, about{}), nil)
}

// isLegacyStatus reports whether a server that answers a request of Modern with a status is a legacy one.
func isLegacyStatus(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusUnauthorized, http.StatusForbidden:
		return false
	}
	return status >= http.StatusBadRequest && status < http.StatusInternalServerError
}

// supported returns the versions in the data of an error.
func supported(data json.RawMessage) []string {
	var versions []string
	wire.Members(orEmpty(data), func(name string, value []byte) bool {
		if name == "supported" {
			versions = texts(value)
		}
		return true
	})
	return versions
}

// texts returns the strings of an array.
func texts(array []byte) []string {
	var all []string
	wire.Elements(array, func(value []byte) bool {
		if text, ok := wire.Text(value); ok {
			all = append(all, text)
		}
		return len(all) < 64
	})
	return all
}

// discovered reads what a modern server supports.
func (c *Client) discovered(ctx context.Context, p *peer, s *session, got response) (*session, error) {
	var versions []string
	wire.Members(got.result, func(name string, value []byte) bool {
		if name == "supportedVersions" {
			versions = texts(value)
		}
		return true
	})
	switch {
	case slices.Contains(versions, wire.Modern):
		s.id, s.about = got.session, readAbout(got.result, wire.Modern)
		return s, nil
	case slices.ContainsFunc(versions, wire.IsLegacy):
		return c.initialize(ctx, p)
	}
	return nil, protocol("the server supports none of the gateway's versions")
}

// initialize begins a session with a legacy server.
func (c *Client) initialize(ctx context.Context, p *peer) (*session, error) {
	s := &session{}
	var params object
	params.addText("protocolVersion", wire.Legacy20251125)
	params.add("capabilities", json.RawMessage(or(p.key.asks, "{}")))
	params.add("clientInfo", c.info())
	got, err := c.exchange(ctx, p, s, c.newRequest(s, wire.MethodInitialize, params, about{}), nil)
	if err != nil {
		return nil, err
	}
	if got.err != nil {
		return nil, got.err
	}
	version, logs := "", false
	wire.Members(got.result, func(name string, value []byte) bool {
		switch name {
		case "protocolVersion":
			version, _ = wire.Text(value)
		case "capabilities":
			logs = declares(value, "logging")
		}
		return true
	})
	if !wire.IsLegacy(version) {
		return nil, protocol("the server answers in a version that the gateway does not speak")
	}
	if !isSession(got.session) {
		return nil, protocol("the server's session id is not 1 to 1024 visible ASCII characters")
	}
	s = &session{version: version, id: got.session, about: readAbout(got.result, version), logs: logs}
	return s, p.link.notify(ctx, s, &request{method: wire.MethodInitialized})
}

// isSession reports whether a text is empty or may be a session id.
func isSession(id string) bool {
	return len(id) <= maxSession && strings.IndexFunc(id, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}

// readAbout reads what a server says of itself, in the result of either way to begin.
func readAbout(result json.RawMessage, version string) About {
	a := About{Version: version}
	wire.Members(result, func(name string, value []byte) bool {
		switch name {
		case "serverInfo":
			a.read(value)
		case "_meta":
			wire.Members(value, func(name string, value []byte) bool {
				if name == wire.MetaServerInfo {
					a.read(value)
				}
				return true
			})
		case "instructions":
			a.Instructions, _ = wire.Text(value)
			a.Instructions = shorten(a.Instructions)
		case "capabilities":
			a.ListChanged, a.Subscribes = has(value, "tools", "listChanged"), has(value, "resources", "subscribe")
		}
		return true
	})
	return a
}

func (a *About) read(info []byte) {
	wire.Members(info, func(name string, value []byte) bool {
		text, _ := wire.Text(value)
		switch name {
		case "name":
			a.Name = visible(text)
		case "version":
			a.ServerVersion = visible(text)
		}
		return true
	})
}

// visible returns a text of one line of at most maxName bytes, without characters that aren't seen.
func visible(text string) string {
	return cut(strings.Map(func(r rune) rune {
		if unicode.IsGraphic(r) {
			return r
		}
		return -1
	}, cut(text, 4*maxName)), maxName)
}

// declares reports whether capabilities have one.
func declares(capabilities []byte, capability string) bool {
	found := false
	wire.Members(capabilities, func(name string, value []byte) bool {
		found = found || name == capability && value[0] == '{'
		return !found
	})
	return found
}

// has reports whether a capability has a member that is true.
func has(capabilities []byte, capability, member string) bool {
	found := false
	wire.Members(capabilities, func(name string, value []byte) bool {
		if name == capability {
			wire.Members(value, func(name string, value []byte) bool {
				found = found || name == member && string(value) == "true"
				return true
			})
		}
		return true
	})
	return found
}
