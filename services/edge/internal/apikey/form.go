package apikey

import (
	"crypto/rand"
	"hash/crc32"
	"strings"
)

// A key is `swy_<environment>_<43 base62><6 base62>`: 256 random bits, then the
// CRC-32 (IEEE 802.3) of everything before it. The prefix lets secret scanners
// find a leaked key, the checksum lets the edge refuse a mistyped or invented
// one without a lookup.
const (
	prefix         = "swy_"
	randomDigits   = 43
	checkDigits    = 6
	maxEnvironment = 16
)

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// unbiased is the largest multiple of 62 that a byte can hold: larger bytes are drawn again, so that every digit is
// equally likely.
const unbiased = 256 / len(base62) * len(base62)

// WellFormed reports whether text has the form and the checksum of a key. It neither allocates nor looks anything up.
func WellFormed(text string) bool {
	if len(text) > len(prefix)+maxEnvironment+1+randomDigits+checkDigits || !strings.HasPrefix(text, prefix) {
		return false
	}
	environment, digits, found := strings.Cut(text[len(prefix):], "_")
	if !found || !validEnvironment(environment) || len(digits) != randomDigits+checkDigits {
		return false
	}
	for i := range len(digits) {
		if !isBase62(digits[i]) {
			return false
		}
	}
	split := len(text) - checkDigits
	return checksum(text[:split]) == [checkDigits]byte([]byte(text[split:]))
}

// validEnvironment reports whether a name may be part of a key: 1 to 16 lower-case letters and digits.
func validEnvironment(name string) bool {
	if name == "" || len(name) > maxEnvironment {
		return false
	}
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

func isBase62(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}

// mint returns a new key of an environment.
func mint(environment string) string {
	text := make([]byte, 0, len(prefix)+len(environment)+1+randomDigits+checkDigits)
	text = append(append(append(text, prefix...), environment...), '_')
	text = appendRandom(text, randomDigits)
	check := checksum(string(text))
	return string(append(text, check[:]...))
}

// appendRandom appends n base62 digits from the system's random source, which never fails (crypto/rand ends the
// process instead).
func appendRandom(text []byte, n int) []byte {
	var pool [64]byte
	for want := len(text) + n; ; {
		_, _ = rand.Read(pool[:])
		for _, b := range pool {
			if len(text) == want {
				return text
			}
			if int(b) < unbiased {
				text = append(text, base62[int(b)%len(base62)])
			}
		}
	}
}

var crcTable = crc32.IEEETable

// checksum returns the CRC-32 of text as six base62 digits, which hold 35.7 bits. It iterates over the string:
// crc32.ChecksumIEEE requires a slice, and the copy would escape.
func checksum(text string) (digits [checkDigits]byte) {
	crc := ^uint32(0)
	for i := range len(text) {
		crc = crcTable[byte(crc)^text[i]] ^ crc>>8
	}
	crc = ^crc
	for i := checkDigits - 1; i >= 0; i-- {
		digits[i] = base62[crc%uint32(len(base62))]
		crc /= uint32(len(base62))
	}
	return digits
}
