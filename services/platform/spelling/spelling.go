// Package spelling finds the name that a misspelt one was probably meant to be. Packages config and command ask it for
// settings, commands and flags.
package spelling

import "strings"

// Nearest returns the first of names with the fewest edits from name, at most limit, or "". An edit inserts, deletes or
// replaces a byte. A name that continues name after the separator counts as one edit (a forgotten _FILE).
func Nearest(name string, names []string, separator string, limit int) string {
	best := ""
	for _, n := range names {
		d := distance(name, n)
		if strings.HasPrefix(n, name+separator) {
			d = 1
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
