package redact

import (
	"net/netip"
	"strings"
	"unicode/utf8"
)

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isLetter(c byte) bool { c |= 0x20; return c >= 'a' && c <= 'z' }

func isAlnum(c byte) bool { return isDigit(c) || isLetter(c) }

// at returns the byte at i, or 0 outside of the text.
func at(text string, i int) byte {
	if i < 0 || i >= len(text) {
		return 0
	}
	return text[i]
}

// separator returns the width in bytes of a separator between groups of digits, or 0 if there is none at i.
func separator(text string, i int) int {
	switch at(text, i) {
	case ' ', '-', '.', '/', '_':
		return 1
	case 0xc2, 0xe2:
		switch r, size := utf8.DecodeRuneInString(text[i:]); r {
		case '\u00a0', '\u2007', '\u2009', '\u202f', '\u2010', '\u2011', '\u2012', '\u2013':
			return size
		}
	}
	return 0
}

// Bounds of an e-mail address (RFC 5321, 4.5.3.1).
const (
	maxLocal  = 64
	maxDomain = 255
)

// emails finds e-mail addresses by their at sign, which may be escaped as in a URL.
func emails(text string, found []span) []span {
	for i := range len(text) {
		width := 1
		switch {
		case text[i] == '@':
		case strings.HasPrefix(text[i:], "%40"):
			width = 3
		default:
			continue
		}
		from, to := i, i+width
		for from > 0 && i-from < maxLocal && inLocal(text[from-1]) {
			from--
		}
		for from < i && (text[from] == '.' || text[from] == '\'' || text[from] == '-') {
			from++
		}
		for to < len(text) && to-i <= maxDomain && (isAlnum(text[to]) || text[to] == '-' || text[to] == '.' || text[to] >= utf8.RuneSelf) {
			to++
		}
		to = len(strings.TrimRight(text[:to], ".-"))
		if from < i && isDomain(text[min(i+width, to):to]) {
			found = append(found, span{from, to, KindEmail})
		}
	}
	return found
}

func inLocal(c byte) bool {
	return isAlnum(c) || c >= utf8.RuneSelf || strings.IndexByte("._%+-'#&~^!$*", c) >= 0
}

// isDomain reports whether name has at least two labels, of which the last is not a number.
func isDomain(name string) bool {
	dot := strings.LastIndexByte(name, '.')
	if dot < 1 || len(name)-dot < 3 || strings.Contains(name, "..") {
		return false
	}
	for i := dot + 1; i < len(name); i++ {
		if !isDigit(name[i]) {
			return true
		}
	}
	return false
}

// Digits of a card number (ISO/IEC 7812-1).
const minCard, maxCard = 13, 19

// cards finds numbers with a valid check digit, in one piece or in groups.
func cards(text string, found []span) []span {
	for i := 0; i < len(text); i++ {
		if !isDigit(text[i]) || isDigit(at(text, i-1)) {
			continue
		}
		if to := card(text, i); to > 0 {
			found = append(found, span{i, to, KindCard})
			i = to - 1
		}
	}
	return found
}

// card returns the end of the longest card number that begins at i, or 0 if there is none.
func card(text string, i int) (end int) {
	if text[i] < '2' || text[i] > '6' {
		return 0 // Other first digits are those of airlines, fuel and health.
	}
	var digits [maxCard]byte
	count, group, groups := 0, 0, 1
	for i < len(text) {
		switch width := separator(text, i); {
		case isDigit(text[i]):
			if count == maxCard {
				return end
			}
			digits[count] = text[i] - '0'
			count++
			group++
			i++
			if !isDigit(at(text, i)) && count >= minCard && (groups == 1 || group >= 2 && group <= 7) && luhn(digits[:count]) {
				end = i
			}
		case width > 0 && isDigit(at(text, i+width)) && group >= 3 && group <= 6:
			group = 0
			groups++
			i += width
		default:
			return end
		}
	}
	return end
}

// luhn reports whether the last digit is the check digit of the others (ISO/IEC 7812-1, annex B).
func luhn(digits []byte) bool {
	sum := 0
	for i := range digits {
		n := int(digits[len(digits)-1-i])
		if i%2 == 1 {
			if n *= 2; n > 9 {
				n -= 9
			}
		}
		sum += n
	}
	return sum%10 == 0
}

// ibanLengths holds the IBAN length of each country, from the SWIFT IBAN registry.
var ibanLengths = map[string]int{
	"AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BI": 27, "BR": 29, "BY": 28, "CH": 21,
	"CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DJ": 27, "DK": 18, "DO": 28, "EE": 20, "EG": 29, "ES": 24, "FI": 18, "FK": 18, "FO": 18,
	"FR": 27, "GB": 22, "GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28, "HN": 28, "HR": 21, "HU": 28, "IE": 22, "IL": 23, "IQ": 23, "IS": 26,
	"IT": 27, "JO": 30, "KW": 30, "KZ": 20, "LB": 28, "LC": 32, "LI": 21, "LT": 20, "LU": 20, "LV": 21, "LY": 25, "MC": 27, "MD": 24,
	"ME": 22, "MK": 19, "MN": 20, "MR": 27, "MT": 31, "MU": 30, "NI": 28, "NL": 18, "NO": 15, "OM": 23, "PK": 24, "PL": 28, "PS": 29,
	"PT": 25, "QA": 29, "RO": 24, "RS": 22, "RU": 33, "SA": 24, "SC": 31, "SD": 18, "SE": 24, "SI": 19, "SK": 24, "SM": 27, "SO": 23,
	"ST": 25, "SV": 28, "TL": 23, "TN": 24, "TR": 26, "UA": 29, "VA": 22, "VG": 24, "XK": 20, "YE": 30,
}

// ibans finds account numbers with valid check digits (ISO 13616), in one piece or in groups.
func ibans(text string, found []span) []span {
	for i := 0; i+4 < len(text); i++ {
		if !isLetter(text[i]) || isAlnum(at(text, i-1)) || !isLetter(text[i+1]) || !isDigit(text[i+2]) {
			continue
		}
		if to := iban(text, i, ibanLengths[strings.ToUpper(text[i:i+2])]); to > 0 {
			found = append(found, span{i, to, KindIBAN})
			i = to - 1
		}
	}
	return found
}

// iban returns the end of an account number of length characters, or 0 if there is none.
func iban(text string, i, length int) int {
	var account [34]byte
	count := 0
	for i < len(text) && count < length {
		switch width := separator(text, i); {
		case isAlnum(text[i]):
			account[count] = text[i]
			count++
			i++
		case width > 0 && count > 0 && isAlnum(at(text, i+width)):
			i += width
		default:
			return 0
		}
	}
	if count == 0 || count < length || isAlnum(at(text, i)) {
		return 0
	}
	rest := 0
	for n := range count { // The first four characters are checked last.
		c := account[(n+4)%count]
		if isDigit(c) {
			rest = (rest*10 + int(c-'0')) % 97
		} else {
			rest = (rest*100 + int(c|0x20) - 'a' + 10) % 97
		}
	}
	if rest != 1 {
		return 0
	}
	return i
}

// addresses finds IPv4 and IPv6 addresses.
func addresses(text string, found []span) []span {
	for i := 0; i < len(text); i++ {
		if !isDigit(text[i]) || isDigit(at(text, i-1)) || at(text, i-1) == '.' && isDigit(at(text, i-2)) {
			continue
		}
		if to := address4(text, i); to > 0 {
			found = append(found, span{i, to, KindIP})
			i = to - 1
		}
	}
	for i := 0; i < len(text); i++ {
		if !inAddress6(text[i]) {
			continue
		}
		from := i
		for i < len(text) && inAddress6(text[i]) {
			i++
		}
		if to := address6(text, from, i); to > 0 {
			found = append(found, span{from, to, KindIP})
		}
	}
	return found
}

// address4 returns the end of exactly four octets, or 0.
func address4(text string, i int) int {
	for octet := range 4 {
		if octet > 0 {
			if at(text, i) != '.' {
				return 0
			}
			i++
		}
		value, from := 0, i
		for i < len(text) && i-from < 4 && isDigit(text[i]) {
			value = value*10 + int(text[i]-'0')
			i++
		}
		if i == from || i-from > 3 || value > 255 {
			return 0
		}
	}
	if at(text, i) == '.' && isDigit(at(text, i+1)) {
		return 0
	}
	return i
}

func inAddress6(c byte) bool {
	return isDigit(c) || c == '.' || c == ':' || c|0x20 >= 'a' && c|0x20 <= 'f'
}

// maxAddress6 is the length of the longest form of an IPv6 address.
const maxAddress6 = 45

// address6 returns the end of the IPv6 address within the run from:to of address characters, or 0 if there is none. A
// full stop behind it ends a sentence and is not part of it.
func address6(text string, from, to int) int {
	for to > from && text[to-1] == '.' {
		to--
	}
	if to-from > 2 && text[to-1] == ':' && text[to-2] != ':' {
		to--
	}
	run := text[from:to]
	if isAlnum(at(text, from-1)) || isLetter(at(text, to)) || len(run) > maxAddress6 ||
		strings.Count(run, ":") < 2 || !strings.ContainsAny(run, "0123456789") {
		return 0
	}
	if _, err := netip.ParseAddr(run); err != nil {
		return 0
	}
	return to
}
