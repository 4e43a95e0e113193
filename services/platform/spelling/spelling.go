// Package spelling finds the name that a misspelt one was probably meant to be. Packages config and command ask it for
// settings, commands and flags; packages that read requests, for fields and query parameters.
package spelling

import (
	"fmt"
	"strings"
)

// maxKnown bounds how many names Hint lists.
const maxKnown = 24

// Hint returns the end of an error about an unknown name: the nearest of the names that exist, or else the first of them
// after what, such as "fields". It never repeats name, and takes no longer if name is long.
func Hint(name, what string, known []string) string {
	limit := min(max(2, len(name)/3), len(name)/2)
	if near := Nearest(name, known, "_", limit); near != "" {
		return "; did you mean " + near + "?"
	}
	if len(known) == 0 {
		return "; known " + what + ": none"
	}
	shown := known[:min(len(known), maxKnown)]
	hint := "; known " + what + ": " + strings.Join(shown, ", ")
	if more := len(known) - len(shown); more > 0 {
		hint += fmt.Sprintf(" and %d more", more)
	}
	return hint
}

// Nearest returns the first of names with the fewest edits from name, at most limit, or "". An edit inserts, deletes or
// replaces a byte. A name that continues name after the separator counts as one edit (a forgotten _FILE).
func Nearest(name string, names []string, separator string, limit int) string {
	best := ""
	for _, n := range names {
		d := limit + 1
		rest, longer := strings.CutPrefix(n, name)
		switch {
		case longer && strings.HasPrefix(rest, separator):
			d = 1
		case max(len(n)-len(name), len(name)-len(n)) <= limit: // Each byte of difference is an edit.
			d = distance(name, n)
		}
		if d <= limit {
			best, limit = n, d-1
		}
	}
	return best
}

// distance returns the Levenshtein distance: the minimum number of bytes to insert, delete or replace to turn a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
