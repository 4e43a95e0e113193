package input

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"unicode"

	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/platform/netguard"
)

// Modes of elicitations.
const (
	modeForm = "form"
	modeURL  = "url"
)

// Bounds of what a caller is shown, in bytes.
const (
	maxMessage = 16 << 10
	maxURL     = 2048
)

// Screen is what a server's requests are held against.
type Screen struct {
	// Server is the id of the server, which messages begin with.
	Server string
	// URL reports whether the server may send callers to pages of an origin, in the form that netguard.Origin returns;
	// nil allows none.
	URL func(origin string) bool
	// ID is what an elicitation that opens a page is called, in revisions in which it needs a name; empty for none.
	ID string
}

// Screen returns what is put to the caller: the request, rebuilt from what is known. The error is an *Error.
func (r *Request) Screen(s Screen) (Request, error) {
	out := Request{Key: r.Key, Method: r.Method}
	var err error
	switch r.Method {
	case wire.MethodElicit:
		out.Params, err = r.screenElicitation(s)
	case wire.MethodSample:
		out.Params, err = r.screenSampling()
	case wire.MethodRoots:
	default:
		err = refuse("method", "is none that servers may ask")
	}
	return out, err
}

// elicitation is what of an elicitation is read.
type elicitation struct {
	mode, message, url string
	schema             json.RawMessage
}

// mode returns the mode of an elicitation.
func (r *Request) mode() string { return r.elicitation().mode }

// elicitation reads the parameters. What is of another kind than it should be is as if it were absent.
func (r *Request) elicitation() elicitation {
	e := elicitation{mode: modeForm}
	wire.Members(orEmpty(r.Params), func(name string, value []byte) bool {
		switch name {
		case "mode":
			e.mode, _ = wire.Text(value)
		case "message":
			e.message, _ = wire.Text(value)
		case "url":
			e.url, _ = wire.Text(value)
		case "requestedSchema":
			e.schema = value
		}
		return true
	})
	return e
}

func (r *Request) screenElicitation(s Screen) (json.RawMessage, error) {
	e := r.elicitation()
	if e.message == "" || len(e.message) > maxMessage {
		return nil, refuse("message", fmt.Sprintf("must be a text of 1 to %d bytes", maxMessage))
	}
	params := jsontext.AppendText([]byte(`{"mode":`), e.mode)
	params = jsontext.AppendText(append(params, `,"message":`...), s.Server+": "+legible(e.message))
	switch e.mode {
	case modeForm:
		f, err := readForm(e.schema)
		if err != nil {
			return nil, err
		}
		if field := f.secret(); field != "" {
			return nil, refuse(field, "must not ask for a secret")
		}
		params = append(append(params, `,"requestedSchema":`...), f.encode()...)
	case modeURL:
		page, err := s.page(e.url)
		if err != nil {
			return nil, err
		}
		params = jsontext.AppendText(append(params, `,"url":`...), page)
		if s.ID != "" {
			params = jsontext.AppendText(append(params, `,"elicitationId":`...), s.ID)
		}
	default:
		return nil, refuse("mode", "must be form or url")
	}
	return append(params, '}'), nil
}

// page returns the URL of a page that the caller may be sent to.
func (s Screen) page(raw string) (string, error) {
	if len(raw) > maxURL || strings.ContainsFunc(raw, func(r rune) bool { return r <= ' ' || r > '~' || r == '\\' }) {
		return "", refuse("url", fmt.Sprintf("must be visible ASCII of at most %d bytes, without backslashes", maxURL))
	}
	u, err := url.Parse(raw)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil {
		return "", refuse("url", "must be a URL of https, without a user's name")
	}
	if s.URL == nil || !s.URL(netguard.Origin(raw)) {
		return "", refuse("url", "must be of an origin that the policy lets the server send callers to")
	}
	return u.String(), nil
}

// legible returns a text without characters that aren't seen but change how it is, such as the direction of writing.
func legible(text string) string {
	return strings.Map(func(r rune) rune {
		const joiner, nonJoiner = '\u200d', '\u200c'
		if unicode.IsGraphic(r) || r == '\n' || r == '\t' || r == joiner || r == nonJoiner {
			return r
		}
		return -1
	}, text)
}

// samplingMembers are the members of a sampling's parameters that are put to a caller. The context of other servers is
// none of them, nor are the server's own members of _meta.
var samplingMembers = map[string]byte{
	"messages": '[', "maxTokens": '0', "systemPrompt": '"', "temperature": '0', "stopSequences": '[', "modelPreferences": '{',
	"metadata": '{', "tools": '[', "toolChoice": '{',
}

// screenSampling returns the parameters of a sampling by their known members. The texts in them are for a model.
func (r *Request) screenSampling() (json.RawMessage, error) {
	params := []byte{'{'}
	var wrong error
	messages, tokens := false, false
	wire.Members(orEmpty(r.Params), func(name string, value []byte) bool {
		kind, known := samplingMembers[name]
		if !known {
			return true
		}
		if kindOf(value) != kind {
			wrong = refuse(name, "is of another kind than the protocol has")
			return false
		}
		messages, tokens = messages || name == "messages", tokens || name == "maxTokens"
		if len(params) > 1 {
			params = append(params, ',')
		}
		params = append(append(jsontext.AppendText(params, name), ':'), value...)
		return true
	})
	if wrong == nil && (!messages || !tokens) {
		wrong = refuse("messages, maxTokens", "are required")
	}
	return append(params, '}'), wrong
}

// kindOf returns the first byte of a value, the digit 0 for any number.
func kindOf(value []byte) byte {
	if value[0] == '-' || value[0] >= '0' && value[0] <= '9' {
		return '0'
	}
	return value[0]
}
