package wire

import (
	"encoding/base64"
	"strings"
)

// Marks of a header's value in base64.
const (
	encodedPrefix = "=?base64?"
	encodedSuffix = "?="
)

// EncodeHeader returns a value as a header carries it: as it is, or in base64 between marks if it isn't visible ASCII,
// has spaces at its ends, or has the marks itself.
func EncodeHeader(value string) string {
	if isPlain(value) {
		return value
	}
	return encodedPrefix + base64.StdEncoding.EncodeToString([]byte(value)) + encodedSuffix
}

func isPlain(value string) bool {
	for i := range len(value) {
		if value[i] < ' ' || value[i] > '~' {
			return false
		}
	}
	return strings.Trim(value, " ") == value && !isEncoded(value)
}

func isEncoded(value string) bool {
	return len(value) >= len(encodedPrefix)+len(encodedSuffix) && strings.HasPrefix(value, encodedPrefix) && strings.HasSuffix(value, encodedSuffix)
}

// DecodeHeader returns the value that a header carries. ok is false for a value that EncodeHeader never returns, but for
// one that needs no base64 and is in base64.
func DecodeHeader(header string) (value string, ok bool) {
	if !isEncoded(header) {
		return header, isPlain(header)
	}
	inner := header[len(encodedPrefix) : len(header)-len(encodedSuffix)]
	decoded, err := base64.StdEncoding.Strict().DecodeString(inner)
	if err != nil || strings.ContainsAny(inner, "\r\n") {
		return "", false
	}
	return string(decoded), true
}
