package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"switchyard.dev/services/gateway/internal/content/jsontext"
)

// Bounds of a message's parts, in bytes.
const (
	maxID     = 256
	maxMethod = 256
)

// Message is a message of JSON-RPC 2.0: a request (ID and Method), a notification (Method), or a response (ID, and
// Result or Error). The ID of a response to a request that the other end couldn't read is null.
type Message struct {
	// ID, Params and Result are JSON, nil for none.
	ID     json.RawMessage
	Method string
	// Params is an object.
	Params json.RawMessage
	// Result is an object.
	Result json.RawMessage
	Error  *Error
}

// Error is the error of a response.
type Error struct {
	Code int64 `json:"code"`
	// Message and Data are the other end's, whatever they hold.
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Error returns the code alone: the rest is the other end's text.
func (e *Error) Error() string {
	return "the tool server answered with error " + strconv.FormatInt(e.Code, 10)
}

// IsRequest reports whether the message wants a response.
func (m *Message) IsRequest() bool { return m.Method != "" && m.ID != nil }

// IsNotification reports whether the message wants no response.
func (m *Message) IsNotification() bool { return m.Method != "" && m.ID == nil }

// IsResponse reports whether the message answers a request.
func (m *Message) IsResponse() bool { return m.Method == "" }

// Errors of a value that is no message.
var (
	errVersion  = errors.New(`jsonrpc: must be "2.0"`)
	errID       = errors.New("id: must be a string or an integer of at most 256 bytes")
	errMethod   = errors.New("method: must be a string of 1 to 256 bytes")
	errParams   = errors.New("params: must be an object")
	errResult   = errors.New("result: must be an object")
	errError    = errors.New("error: must be an object with an integer code and a message")
	errKind     = errors.New("must be a request, a notification or a response")
	errNoObject = errors.New("must be a JSON object")
)

// Parse reads a message. Its parts share the text's memory. Errors repeat nothing of the text.
func Parse(text []byte) (Message, error) {
	if err := Check(text); err != nil {
		return Message{}, err
	}
	var m Message
	var failure error
	version := false
	object := Members(text, func(name string, value []byte) bool {
		failure = m.member(name, value, &version)
		return failure == nil
	})
	switch {
	case !object:
		return Message{}, errNoObject
	case failure != nil:
		return Message{}, failure
	case !version:
		return Message{}, errVersion
	}
	return m, m.kind()
}

// member reads a member of the envelope. Those that JSON-RPC doesn't know are left out.
func (m *Message) member(name string, value []byte, version *bool) error {
	switch name {
	case "jsonrpc":
		text, ok := Text(value)
		if *version = ok && text == "2.0"; !*version {
			return errVersion
		}
	case "id":
		if m.ID = value; !isID(value) {
			return errID
		}
	case "method":
		text, ok := Text(value)
		if m.Method = text; !ok || text == "" || len(text) > maxMethod {
			return errMethod
		}
	case "params":
		if m.Params = value; value[0] != '{' {
			return errParams
		}
	case "result":
		if m.Result = value; value[0] != '{' {
			return errResult
		}
	case "error":
		var err error
		m.Error, err = ReadError(value)
		return err
	}
	return nil
}

// isID reports whether a value is an id: a string, an integer, or null.
func isID(value []byte) bool {
	if len(value) > maxID {
		return false
	}
	if value[0] == '"' || string(value) == "null" {
		return true
	}
	_, err := strconv.ParseInt(string(value), 10, 64)
	return err == nil
}

// ReadError reads an error, which has passed Check.
func ReadError(value []byte) (*Error, error) {
	e := &Error{}
	code, message := false, false
	object := Members(value, func(name string, value []byte) bool {
		switch name {
		case "code":
			n, err := strconv.ParseInt(string(value), 10, 64)
			e.Code, code = n, err == nil
		case "message":
			e.Message, message = Text(value)
		case "data":
			e.Data = value
		}
		return true
	})
	if !object || !code || !message {
		return nil, errError
	}
	return e, nil
}

// kind checks that the message is of exactly one kind.
func (m *Message) kind() error {
	null := string(m.ID) == "null"
	switch {
	case m.Method != "":
		if m.Result != nil || m.Error != nil || null {
			return errKind
		}
	case m.Result != nil && m.Error == nil && m.Params == nil:
		if m.ID == nil || null {
			return errID
		}
	case m.Error == nil || m.Result != nil || m.Params != nil:
		return errKind
	case null:
		m.ID = nil
	}
	return nil
}

// Append appends the message's JSON to dst.
func (m *Message) Append(dst []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0"`...)
	if m.ID != nil {
		dst = append(append(dst, `,"id":`...), m.ID...)
	} else if m.Method == "" {
		dst = append(dst, `,"id":null`...)
	}
	if m.Method != "" {
		dst = jsontext.AppendText(append(dst, `,"method":`...), m.Method)
	}
	if m.Params != nil {
		dst = append(append(dst, `,"params":`...), m.Params...)
	}
	if m.Result != nil {
		dst = append(append(dst, `,"result":`...), m.Result...)
	}
	if m.Error != nil {
		dst = m.Error.append(append(dst, `,"error":`...))
	}
	return append(dst, '}')
}

func (e *Error) append(dst []byte) []byte {
	dst = fmt.Appendf(dst, `{"code":%d,"message":`, e.Code)
	dst = jsontext.AppendText(dst, e.Message)
	if e.Data != nil {
		dst = append(append(dst, `,"data":`...), e.Data...)
	}
	return append(dst, '}')
}
