package proxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// maxHead is how much of a message is read before it passes on, in bytes.
const maxHead = 1024

// beginning reads the beginning of a message.
func beginning(message io.Reader) ([]byte, error) {
	text := make([]byte, maxHead)
	n, err := io.ReadFull(message, text)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	return text[:n], nil
}

// head is what the beginning of a message of the Responses API says: the members before its first object or array.
type head struct {
	kind, stream string
	// warmUp reports that the response made no answer, refusal that the message refuses a request, which has no response.
	warmUp, refusal bool
}

// readHead reads the beginning of a message. What it can't read it leaves out. The gateway refuses a message that names a
// member twice, so that it can't be another one to the gateway.
func readHead(text []byte) (h head) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if open, err := decoder.Token(); err != nil || open != json.Delim('{') {
		return head{}
	}
	for {
		name, err := decoder.Token()
		if err != nil {
			return h
		}
		value, err := decoder.Token()
		if _, nested := value.(json.Delim); err != nil || nested {
			return h
		}
		h.set(name, value)
	}
}

func (h *head) set(name, value json.Token) {
	text, _ := value.(string)
	switch name {
	case "type":
		h.kind = text
	case "stream_id":
		h.stream = text
	case "generate":
		h.warmUp = value == false
	case "status":
		h.refusal = true
	}
}

// control reports whether a customer's message requests nothing: it passes, and is not limited. Any message that isn't
// known to be one counts as a request.
func (h head) control() bool {
	switch h.kind {
	case "response.cancel", "response.processed", "response.steer":
		return true
	}
	return false
}

// counts reports whether an event completes a response that counts as a success.
func (h head) counts() bool {
	return !h.warmUp && (h.kind == "response.completed" || h.kind == "response.incomplete")
}

// ends reports whether an event is the last one for a request. An error within a response is followed by another event.
func (h head) ends() bool {
	switch h.kind {
	case "response.completed", "response.incomplete", "response.failed":
		return true
	case "error":
		return h.refusal
	}
	return false
}
