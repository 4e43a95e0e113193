package api

import (
	"encoding/base64"
	"strconv"
	"strings"
	"time"

	"switchyard.dev/services/notify/internal/send"
	"switchyard.dev/services/platform/apierr"
)

// cursor encodes a position in one kind of list as opaque text. Its value names the kind, so that no other list
// accepts the text.
type cursor string

const (
	inboxCursor   cursor = "inbox:"
	attemptCursor cursor = "attempt:"
	historyCursor cursor = "push_history:"
	sendCursor    cursor = "send:"
)

// encode returns the cursor of the page that begins after seq.
func (c cursor) encode(seq int64) string { return c.encodeText(strconv.FormatInt(seq, 10)) }

// encodeText returns the cursor of a position in any other form.
func (c cursor) encodeText(position string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(string(c) + position))
}

var errCursor = apierr.Invalid("cursor", "is not a next_cursor of this list")

// decode returns the position in a cursor; an empty cursor is zero, the beginning of the list.
func (c cursor) decode(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	digits, err := c.decodeText(text)
	if err != nil {
		return 0, err
	}
	seq, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || seq <= 0 {
		return 0, errCursor
	}
	return seq, nil
}

// decodeText returns the position in a cursor that is not empty.
func (c cursor) decodeText(text string) (string, error) {
	plain, err := base64.RawURLEncoding.Strict().DecodeString(text)
	position, ours := strings.CutPrefix(string(plain), string(c))
	if err != nil || !ours {
		return "", errCursor
	}
	return position, nil
}

// lastMicrosecond is that of the year 9999, the last that RFC 3339 can represent.
const lastMicrosecond = 1000*lastMillisecond + 999

// encodePlace returns the cursor of the page that begins below a notification; empty for the zero Position.
func encodePlace(p send.Position) string {
	if p.IsZero() {
		return ""
	}
	return sendCursor.encodeText(strconv.FormatInt(p.At.UnixMicro(), 10) + "." + p.ID.String())
}

// decodePlace returns the place in a cursor of a list of sends; an empty cursor is the beginning.
func decodePlace(text string) (send.Position, error) {
	if text == "" {
		return send.Position{}, nil
	}
	position, err := sendCursor.decodeText(text)
	if err != nil {
		return send.Position{}, err
	}
	digits, name, _ := strings.Cut(position, ".")
	micros, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || micros <= 0 || micros > lastMicrosecond {
		return send.Position{}, errCursor
	}
	id, err := parseID(name, errCursor)
	return send.Position{At: time.UnixMicro(micros).UTC(), ID: id}, err
}
