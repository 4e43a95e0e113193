package delivery

import (
	"strings"
	"unicode/utf8"
)

// Text returns the beginning of s, at most limit bytes, as text that can be stored: valid UTF-8 without NUL.
func Text(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit]
		for range utf8.UTFMax - 1 { // Not in the middle of a character.
			if r, size := utf8.DecodeLastRuneInString(s); r != utf8.RuneError || size != 1 {
				break
			}
			s = s[:len(s)-1]
		}
	}
	s = strings.ToValidUTF8(s, "?")
	return strings.ReplaceAll(s, "\x00", "?")
}
