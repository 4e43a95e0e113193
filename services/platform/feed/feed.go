// Package feed has the positions of feeds. A feed is a table whose rows are read in the order of their commits, so that a
// reader that stores its position gets each row once.
package feed

import (
	"cmp"
	"strconv"
	"strings"
)

// Position is a place in a feed: after a row of a transaction. The zero Position is its beginning.
type Position struct {
	Transaction uint64
	Row         int64
}

// String returns the position as text, such as "731-42"; empty for the beginning.
func (p Position) String() string {
	if p == (Position{}) {
		return ""
	}
	return strconv.FormatUint(p.Transaction, 10) + "-" + strconv.FormatInt(p.Row, 10)
}

// Parse is the inverse of String. It reports false for a text that is no position.
func Parse(text string) (p Position, ok bool) {
	if text == "" {
		return Position{}, true
	}
	transaction, row, _ := strings.Cut(text, "-")
	var errTransaction, errRow error
	p.Transaction, errTransaction = strconv.ParseUint(transaction, 10, 63)
	p.Row, errRow = strconv.ParseInt(row, 10, 64)
	if errTransaction != nil || errRow != nil || p.Row <= 0 {
		return Position{}, false
	}
	return p, true
}

// Compare returns a negative number if p is before q, a positive one if it is behind it, and 0 if they are the same.
func (p Position) Compare(q Position) int {
	return cmp.Or(cmp.Compare(p.Transaction, q.Transaction), cmp.Compare(p.Row, q.Row))
}
