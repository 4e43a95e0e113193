package api

import (
	"encoding/base64"
	"strconv"
	"strings"

	"switchyard.dev/services/platform/apierr"
)

// cursor encodes a position in one kind of list as opaque text. Its value names the kind, so that no other list
// accepts the text.
type cursor string

const (
	inboxCursor   cursor = "inbox:"
	attemptCursor cursor = "attempt:"
	historyCursor cursor = "push_history:"
)

// encode returns the cursor of the page that begins after seq.
func (c cursor) encode(seq int64) string {
	return base64.RawURLEncoding.EncodeToString([]byte(string(c) + strconv.FormatInt(seq, 10)))
}

// decode returns the position in a cursor; an empty cursor is zero, the beginning of the list.
func (c cursor) decode(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	plain, err := base64.RawURLEncoding.Strict().DecodeString(text)
	digits, ours := strings.CutPrefix(string(plain), string(c))
	seq, parseErr := strconv.ParseInt(digits, 10, 64)
	if err != nil || !ours || parseErr != nil || seq <= 0 {
		return 0, apierr.Invalid("cursor", "is not a next_cursor of this list")
	}
	return seq, nil
}
