package upstream

import (
	"context"
	"encoding/json"
	"strconv"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// maxText bounds a text of a server that is passed on, in bytes.
const maxText = 4 << 10

// Progress is a notice of how far a call is.
type Progress struct {
	Progress float64
	// Total is 0 if the server doesn't know it.
	Total float64
	// Message is the server's text, at most 4 KiB.
	Message string
}

// conversation is what happens between a request and its response.
type conversation struct {
	// id is the request's, and the token of its progress.
	id      json.RawMessage
	modern  bool
	tokened bool
	// progress receives notices of progress; nil for none. changed is called once if the server says that its tools have
	// changed, however often it does.
	progress func(Progress)
	changed  func()
	log      Log
	// notice receives notifications of a stream of notices; nil for any other request.
	notice func(*wire.Message)
	// offersChanged is called once if the server says that its resources or prompts have changed.
	offersChanged func()
	// reply answers a request of the server. Several goroutines may call it.
	reply func(ctx context.Context, m *wire.Message) error
	// asks answers what the server asks of its client, on the goroutines of asking.
	asks   Ask
	asking errgroup.Group
	// pending has what ends each request of the server, by its id.
	pending map[string]context.CancelFunc

	messages, asked int
	last            float64
	begun, noted    bool
	offersNoted     bool
	logged          int
}

// Errors of servers that don't follow the protocol.
var (
	errTooMany   = &Error{Cause: CauseTooLarge, Text: "the server sent too many messages before the answer", Sent: true}
	errWrongID   = protocol("the server answered a request that was not made")
	errAsked     = protocol("the server sent a request, which its version does not allow")
	errBackwards = protocol("the server's progress did not increase")
	errNotice    = protocol("the server sent a notice of progress that can't be read")
)

// receive takes a message. done reports that it is the response. Its parts are valid as long as the message's text.
func (v *conversation) receive(ctx context.Context, m *wire.Message) (done bool, err error) {
	if v.messages++; v.messages > maxMessages {
		return false, errTooMany
	}
	switch {
	case m.IsResponse():
		if string(m.ID) != string(v.id) {
			return false, errWrongID
		}
		return true, nil
	case m.IsRequest():
		return false, v.answer(ctx, m)
	}
	if v.notice != nil {
		v.notice(m)
	}
	switch m.Method {
	case wire.MethodProgress:
		return false, v.advance(m.Params)
	case wire.MethodToolsChange:
		if !v.noted {
			v.noted = true
			v.changed()
		}
	case wire.MethodMessage:
		v.pass(m.Params)
	case wire.MethodCancelled:
		v.withdraw(m.Params)
	case wire.MethodResourcesChange, wire.MethodPromptsChange:
		if !v.offersNoted && v.offersChanged != nil {
			v.offersNoted = true
			v.offersChanged()
		}
	}
	return false, nil
}

// answer answers a request of a legacy server: a ping as it wants, what it may ask of its client as that says, any other
// as not supported.
func (v *conversation) answer(ctx context.Context, m *wire.Message) error {
	if v.modern {
		return errAsked
	}
	if v.asked++; v.asked > maxAsked && v.notice == nil { // A stream of notices has pings as long as it lasts.
		return errTooMany
	}
	if v.asks.Answer != nil && asksClient(m.Method) {
		return v.ask(ctx, m)
	}
	v.respond(ctx, answerTo(m))
	return nil
}

// answerTo returns the response to a server's request.
func answerTo(m *wire.Message) *wire.Message {
	if m.Method == wire.MethodPing {
		return &wire.Message{ID: m.ID, Result: json.RawMessage("{}")}
	}
	return &wire.Message{ID: m.ID, Error: &wire.Error{Code: wire.CodeMethodNotFound, Message: "the gateway does not support this request"}}
}

// advance takes a notice of progress.
func (v *conversation) advance(params json.RawMessage) error {
	var p Progress
	var token json.RawMessage
	valid := true
	wire.Members(orEmpty(params), func(name string, value []byte) bool {
		var err error
		switch name {
		case wire.MetaProgress:
			token = value
		case "progress":
			p.Progress, err = strconv.ParseFloat(string(value), 64)
		case "total":
			p.Total, err = strconv.ParseFloat(string(value), 64)
		case "message":
			p.Message, _ = wire.Text(value)
			p.Message = shorten(p.Message)
		}
		valid = valid && err == nil
		return true
	})
	switch {
	case !valid || token == nil:
		return errNotice
	case !v.tokened || string(token) != string(v.id):
		return nil // Of a request that has ended, or of none.
	case v.begun && p.Progress <= v.last:
		return errBackwards
	}
	v.begun, v.last = true, p.Progress
	if v.progress != nil {
		v.progress(p)
	}
	return nil
}
