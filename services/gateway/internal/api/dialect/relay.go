package dialect

import (
	"bytes"
	"encoding/json"

	"github.com/tidwall/gjson"
)

// Renamer replaces the vendor's name of a model by the caller's. It is for the frames of one stream: they begin alike,
// so it searches for the position of the name once.
type Renamer struct {
	path  string
	quote []byte // the name as JSON
	// head ends with the vendor's name as JSON, at byte at.
	at, length int
	vendor     []byte
}

// NewRenamer returns a Renamer that replaces the string at a gjson path by name.
func NewRenamer(path, name string) *Renamer {
	quote, _ := json.Marshal(name) // A string always marshals.
	return &Renamer{path: path, quote: quote}
}

// Append appends a frame to dst, with the model's name replaced.
func (r *Renamer) Append(dst, frame []byte) []byte {
	if !r.known(frame) && !r.find(frame) {
		return append(dst, frame...)
	}
	dst = append(dst, frame[:r.at]...)
	dst = append(dst, r.quote...)
	return append(dst, frame[r.at+r.length:]...)
}

var modelKey, brace = []byte(`"model":`), []byte{'{'}

// known reports whether the name is where it was in the previous frame.
func (r *Renamer) known(frame []byte) bool {
	return r.length > 0 && len(frame) > r.at+r.length &&
		bytes.HasSuffix(frame[:r.at], modelKey) && bytes.HasPrefix(frame[r.at:], r.vendor) && bytes.Count(frame[:r.at], brace) == 1
}

func (r *Renamer) find(frame []byte) bool {
	found := gjson.GetBytes(frame, r.path)
	if found.Type != gjson.String || found.Index == 0 {
		return false
	}
	r.at, r.length = found.Index, len(found.Raw)
	r.vendor = append(r.vendor[:0], found.Raw...)
	return true
}

var lineEnd = []byte{'\n'}

// AppendData appends one server-sent event. An empty name is omitted.
func AppendData(dst []byte, name string, data []byte) []byte {
	if name != "" {
		dst = append(append(append(dst, "event: "...), name...), '\n')
	}
	for { // A frame of several lines becomes several data lines (WHATWG HTML, section 9.2.6).
		line, rest, more := bytes.Cut(data, lineEnd)
		dst = append(append(append(dst, "data: "...), line...), '\n')
		if !more {
			return append(dst, '\n')
		}
		data = rest
	}
}
