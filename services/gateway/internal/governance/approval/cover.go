package approval

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"

	"switchyard.dev/services/platform/jsoncheck"
)

// Call is a tool call in a model's answer.
type Call struct {
	Organization, Run string
	Tool, Arguments   string
}

// Names reports whether the approval is for calls of this tool in this run, with any arguments. An approval without a
// run is for every run.
func (a Approval) Names(c Call) bool {
	return a.Organization == c.Organization && a.Tool == c.Tool && (a.Run == "" || a.Run == c.Run)
}

// AnyArguments reports whether the approval allows any arguments.
func (a Approval) AnyArguments() bool { return a.Arguments == nil }

// Covers reports whether the approval is for this call. Arguments are equal if they are the same JSON value, whatever
// its spacing and order of members.
func (a Approval) Covers(c Call) bool {
	return a.Names(c) && (a.AnyArguments() || digest(a.Arguments) == digest([]byte(c.Arguments)))
}

// digest returns the same sum for the same JSON value: members in any order, numbers as they are written. A text that
// is not JSON, has a duplicate name (which readers resolve differently) or is nested too deeply, equals only the same
// bytes.
func digest(text []byte) [sha256.Size]byte {
	if canonical, ok := canonical(text); ok {
		return sha256.Sum256(append([]byte("json\x00"), canonical...))
	}
	return sha256.Sum256(append([]byte("text\x00"), text...))
}

func canonical(text []byte) ([]byte, bool) {
	if jsoncheck.TooDeep(text) || hasDuplicateName(text) {
		return nil, false
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return nil, false
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, false
	}
	sorted, err := json.Marshal(value)
	// Invalid UTF-8 is decoded as U+FFFD, whatever it was.
	return sorted, err == nil && !bytes.ContainsRune(sorted, utf8.RuneError)
}

// hasDuplicateName reports whether an object in the text has a name twice, or the text is not JSON.
func hasDuplicateName(text []byte) bool {
	decoder := json.NewDecoder(bytes.NewReader(text))
	var open []map[string]bool // names of the open objects; nil for a list
	name := false              // the next token is a name
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return false
		}
		if err != nil {
			return true
		}
		switch token := token.(type) {
		case json.Delim:
			switch token {
			case '{':
				open = append(open, map[string]bool{})
			case '[':
				open = append(open, nil)
			default:
				open = open[:len(open)-1]
			}
			name = len(open) > 0 && open[len(open)-1] != nil
			continue
		case string:
			if names := last(open); name {
				if names[token] {
					return true
				}
				names[token] = true
				name = false
				continue
			}
		}
		name = last(open) != nil
	}
}

func last(open []map[string]bool) map[string]bool {
	if len(open) == 0 {
		return nil
	}
	return open[len(open)-1]
}
