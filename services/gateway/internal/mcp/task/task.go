// Package task is what the tasks extension of the Model Context Protocol (io.modelcontextprotocol/tasks, of the revision
// 2026-07-28) adds to calls: results that come later. It reads the tasks of servers within bounds, writes them for callers
// under other ids, and seals in such an id whose task of which server it is. Package upstream reads tasks with it, package
// toolcall seals and opens ids.
package task

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// Status is the status of a task. The last three are final.
type Status string

// The statuses.
const (
	Working       Status = "working"
	InputRequired Status = "input_required"
	Completed     Status = "completed"
	Failed        Status = "failed"
	Cancelled     Status = "cancelled"
)

// Final reports whether a task of this status changes no more.
func (s Status) Final() bool { return s == Completed || s == Failed || s == Cancelled }

// Bounds of what a server says of a task, in bytes.
const (
	// MaxID bounds an id.
	MaxID = 1024
	// maxMessage is how much of a message is passed on; maxTime bounds a time.
	maxMessage = 4 << 10
	maxTime    = 64
)

// Life is how long a task is served at most.
const Life = 24 * time.Hour

// Task is a task as its server describes it.
type Task struct {
	// ID is the server's own.
	ID     string
	Status Status
	// Inputs is the object of what the server asks for, with InputRequired; Result the result of the call, with Completed;
	// Error the call's error, with Failed. Nil otherwise.
	Inputs, Result json.RawMessage
	Error          *wire.Error

	message          string
	created, updated json.RawMessage
	// ttl and poll are in milliseconds; ttl is unlimited for a task without end, and poll negative for none.
	ttl, poll int64
	// more are the members that the gateway doesn't know, and _meta.
	more []member
}

type member struct {
	name  string
	value json.RawMessage
}

// unlimited is the ttl of a task without end.
const unlimited = math.MaxInt64

// Errors of what is no task. They repeat nothing of it.
var (
	errID      = errors.New("taskId: must be a string of 1 to 1024 bytes")
	errStatus  = errors.New("status: must be working, input_required, completed, failed or cancelled")
	errMessage = errors.New("statusMessage: must be a string")
	errTime    = errors.New("createdAt, lastUpdatedAt: must be times of ISO 8601")
	errTTL     = errors.New("ttlMs: must be null, or an integer from 0 to 2^53-1")
	errPoll    = errors.New("pollIntervalMs: must be an integer from 0 to 2^53-1")
	errInputs  = errors.New("inputRequests: must be an object, with the status input_required")
	errResult  = errors.New("result: must be an object, with the status completed")
	errError   = errors.New("error: must be an error of JSON-RPC, with the status failed")
	errMeta    = errors.New("_meta: must be an object")
)

// Read reads a task of an object that has passed wire.Check. Its parts share the text's memory. whole demands what belongs
// to its status; the answer to a call is without. What belongs to another status is left out.
func Read(text []byte, whole bool) (*Task, error) {
	t := &Task{ttl: unlimited, poll: -1}
	var inputs, result, failure json.RawMessage
	var wrong error
	wire.Members(text, func(name string, value []byte) bool {
		switch name {
		case "resultType", "requestState": // The latter is of results that require input.
		case "inputRequests":
			inputs = value
		case "result":
			result = value
		case "error":
			failure = value
		default:
			wrong = t.member(name, value)
		}
		return wrong == nil
	})
	switch {
	case wrong != nil:
		return nil, wrong
	case t.ID == "":
		return nil, errID
	case t.Status == "":
		return nil, errStatus
	case t.created == nil || t.updated == nil:
		return nil, errTime
	case !whole:
		return t, nil
	}
	return t, t.payload(inputs, result, failure)
}

// member reads a member that every task may have.
func (t *Task) member(name string, value []byte) error {
	var ok bool
	switch name {
	case "taskId":
		if t.ID, ok = wire.Text(value); !ok || t.ID == "" || len(t.ID) > MaxID {
			return errID
		}
	case "status":
		text, _ := wire.Text(value)
		switch t.Status = Status(text); t.Status {
		case Working, InputRequired, Completed, Failed, Cancelled:
		default:
			return errStatus
		}
	case "statusMessage":
		if t.message, ok = wire.Text(value); !ok {
			return errMessage
		}
	case "createdAt":
		if t.created = value; !isTime(value) {
			return errTime
		}
	case "lastUpdatedAt":
		if t.updated = value; !isTime(value) {
			return errTime
		}
	case "ttlMs":
		if string(value) == "null" {
			return nil
		}
		if t.ttl, ok = milliseconds(value); !ok {
			return errTTL
		}
	case "pollIntervalMs":
		if t.poll, ok = milliseconds(value); !ok {
			return errPoll
		}
	case "_meta":
		if value[0] != '{' {
			return errMeta
		}
		t.more = append(t.more, member{name, value})
	default:
		t.more = append(t.more, member{name, value})
	}
	return nil
}

// payload takes what belongs to the status.
func (t *Task) payload(inputs, result, failure json.RawMessage) error {
	switch t.Status {
	case InputRequired:
		if t.Inputs = inputs; inputs == nil || inputs[0] != '{' {
			return errInputs
		}
	case Completed:
		if t.Result = result; result == nil || result[0] != '{' {
			return errResult
		}
	case Failed:
		var err error
		if failure == nil {
			return errError
		}
		if t.Error, err = wire.ReadError(failure); err != nil {
			return errError
		}
	case Working, Cancelled:
	}
	return nil
}

// layouts are the forms of times that servers write.
var layouts = []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02T15:04:05.999999999Z0700"}

func isTime(value []byte) bool {
	if len(value) > maxTime {
		return false
	}
	text, ok := wire.Text(value)
	for _, layout := range layouts {
		if _, err := time.Parse(layout, text); ok && err == nil {
			return true
		}
	}
	return false
}

// milliseconds reads a number of milliseconds.
func milliseconds(value []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(value), 10, 64)
	return n, err == nil && n >= 0 && n < 1<<53
}

// cut returns as much of a text as is passed on.
func cut(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	end := maxMessage
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}
