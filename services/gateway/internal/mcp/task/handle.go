package task

import (
	"errors"
	"time"
)

// MaxHandle bounds the id that a caller has of a task, in bytes: it is a header, too.
const MaxHandle = 4096

// purpose binds ids to their use.
const purpose = "task of the Model Context Protocol"

// Errors of ids.
var (
	// ErrUnknown is the error of an id that is none, is of another organization, or has expired.
	ErrUnknown = errors.New("the task is unknown")
	errLong    = errors.New("the server's id of the task is too long")
)

// Handle is what an id that a caller has of a task holds.
type Handle struct {
	// Server and Owner are the key of the server's registration, and Place identifies where it is: another address is
	// another server. ID is the server's own id.
	Server string `json:"s"`
	Owner  string `json:"o,omitempty"`
	Place  string `json:"p"`
	ID     string `json:"i"`
	// Tool is the tool that was called, by the server's own name, and Definition the digest of its definition.
	Tool       string `json:"t"`
	Definition string `json:"d"`
	// Of is who called it.
	Of Principal `json:"w"`
	// Call is the id of the call's ledger row, and Request that of the request.
	Call    string `json:"c"`
	Request string `json:"q"`
}

// Principal is who may use a task.
type Principal struct {
	// Key is the first of the customer keys that took turns, Service the first-party caller, User on whose behalf the call
	// was made, and Run its run.
	Key     string `json:"k,omitempty"`
	Service string `json:"s,omitempty"`
	User    string `json:"u,omitempty"`
	Run     string `json:"r,omitempty"`
}

// Tickets seals and opens texts that callers keep; see ticket.Tickets.
type Tickets interface {
	Seal(organization, purpose string, v any, expires time.Time) (string, error)
	Open(organization, purpose, text string, v any) (expires time.Time, err error)
}

// Seal returns the id of a task for its caller, of visible ASCII. It is of use for Life.
func (h *Handle) Seal(t Tickets, organization string, now time.Time) (string, error) {
	id, err := t.Seal(organization, purpose, h, now.Add(Life))
	if err != nil {
		return "", err
	}
	if len(id) > MaxHandle {
		return "", errLong
	}
	return id, nil
}

// Open returns what an id holds, and until when it is of use. The error is ErrUnknown.
func Open(t Tickets, organization, id string) (*Handle, time.Time, error) {
	h := &Handle{}
	if id == "" || len(id) > MaxHandle {
		return nil, time.Time{}, ErrUnknown
	}
	expires, err := t.Open(organization, purpose, id, h)
	if err != nil || h.ID == "" {
		return nil, time.Time{}, ErrUnknown
	}
	return h, expires, nil
}
