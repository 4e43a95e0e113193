package api

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"switchyard.dev/services/platform/apierr"
)

// keyset implements cursors of a list that is ordered by names. A cursor holds the names of the last item and a hash of
// the list's filters: with other filters it would skip items.
type keyset struct {
	Filter string   `json:"f"`
	Last   []string `json:"l"`
}

// newKeyset returns the keyset of a list with these filters.
func newKeyset(filters ...string) keyset {
	sum := sha256.Sum256([]byte(strings.Join(filters, "\x00")))
	return keyset{Filter: base64.RawStdEncoding.EncodeToString(sum[:6])}
}

// cursor returns the cursor behind the last item of a page, given the names that order it.
func (k keyset) cursor(last ...string) string {
	k.Last = last
	text, err := json.Marshal(k)
	if err != nil {
		return "" // Texts can't fail.
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// read returns the names in a cursor of the same list; empty names for no cursor.
func (k keyset) read(cursor string, names int) ([]string, error) {
	if cursor == "" {
		return make([]string, names), nil
	}
	var got keyset
	text, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err == nil {
		err = json.Unmarshal(text, &got)
	}
	if err != nil || got.Filter != k.Filter || len(got.Last) != names || strings.Contains(strings.Join(got.Last, ""), "\x00") {
		return nil, apierr.Invalid("cursor", "must be the next_cursor of a page with the same filters")
	}
	return got.Last, nil
}

// number is read for a list that is ordered by one number; 0 for no cursor.
func (k keyset) number(cursor string) (int64, error) {
	last, err := k.read(cursor, 1)
	if err != nil || last[0] == "" {
		return 0, err
	}
	n, err := strconv.ParseInt(last[0], 10, 64)
	if err != nil || n < 1 {
		return 0, apierr.Invalid("cursor", "must be the next_cursor of a page with the same filters")
	}
	return n, nil
}

// pageSize returns the limit of a page.
func pageSize(limit int32) int {
	if limit == 0 {
		return defaultPage
	}
	return int(limit)
}

// paged is what the requests of lists have in common.
type paged interface {
	GetLimit() int32
	GetCursor() string
}

// pageOf returns a page of a list that is ordered by the names of its items; each item has width names.
func pageOf[T any](k keyset, m paged, width int, all []T, names func(T) []string) (page []T, cursor string, err error) {
	if m.GetCursor() != "" {
		last, err := k.read(m.GetCursor(), width)
		if err != nil {
			return nil, "", err
		}
		from := slices.IndexFunc(all, func(item T) bool { return slices.Compare(names(item), last) > 0 })
		if from < 0 {
			return nil, "", nil
		}
		all = all[from:]
	}
	if limit := pageSize(m.GetLimit()); len(all) > limit {
		return all[:limit], k.cursor(names(all[limit-1])...), nil
	}
	return all, "", nil
}
