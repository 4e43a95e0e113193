// Package tag holds the rules of a request's tags: names and values by which callers group what they spend. Package api
// reads them, the ledger keeps them. It does no I/O.
package tag

import (
	"fmt"
	"maps"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/screen"
)

// Bounds of the tags of a request. Characters are Unicode code points.
const (
	maxTags  = 10
	maxName  = 64
	maxValue = 128
	// maxHeader bounds the header, in bytes: the most tags with every byte of four-byte characters escaped fit.
	maxHeader = 20 << 10
)

// Rules, as errors say them.
const (
	ruleTags   = "must have at most 10 tags"
	ruleName   = "a name must have 1 to 64 of the characters a-z, 0-9, _, - and ."
	ruleValue  = "a value must have 1 to 128 printable characters"
	ruleKey    = "seems to hold a key; send a label"
	ruleMember = "must be name=value, separated by commas, with other characters than letters, digits and !#$&'()*+-./:<=>?@[]^_`{|}~ percent-encoded"
	ruleTwice  = "a name appears twice"
)

// field is the name of the tags in the contract.
const field = "tags"

// Of returns the tags of a request, from its X-Switchyard-Tags header or from its field. Both may say the same, but not
// different things. The error is an *apierr.Error that names the header or the field, and repeats no value.
func Of(header string, ofField map[string]string) (map[string]string, error) {
	if err := Check(field, ofField); err != nil {
		return nil, err
	}
	if header == "" {
		return ofField, nil
	}
	ofHeader, err := parse(header)
	if err != nil {
		return nil, err
	}
	if len(ofField) > 0 && !maps.Equal(ofField, ofHeader) {
		return nil, apierr.Invalid(field, "differs from the header "+caller.HeaderTags)
	}
	return ofHeader, nil
}

// Name reports whether s may be the name of a tag.
func Name(s string) bool {
	if s == "" || len(s) > maxName {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' && c != '.' {
			return false
		}
	}
	return true
}

// value reports whether s may be the value of a tag.
func value(s string) bool {
	if s == "" || !utf8.ValidString(s) || utf8.RuneCountInString(s) > maxValue {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// Check returns an error that names a field, header or parameter if its tags break a rule.
func Check(of string, tags map[string]string) error {
	if len(tags) > maxTags {
		return apierr.Invalid(of, ruleTags)
	}
	for name, text := range tags {
		switch {
		case !Name(name):
			return apierr.Invalid(of, ruleName)
		case !value(text):
			return apierr.Invalid(of, ruleValue)
		case screen.HasKeyForm(name) || screen.HasKeyForm(text):
			return apierr.Invalid(of, ruleKey)
		}
	}
	return nil
}

// parse returns the tags of a header: a list as in W3C Baggage (section 3.3.1.1) without properties.
func parse(header string) (map[string]string, error) {
	if len(header) > maxHeader {
		return nil, apierr.Invalid(caller.HeaderTags, fmt.Sprintf("must have at most %d bytes", maxHeader))
	}
	tags := make(map[string]string)
	for member := range strings.SplitSeq(header, ",") {
		name, text, found := strings.Cut(member, "=")
		name, text = strings.Trim(name, " \t"), strings.Trim(text, " \t")
		decoded, err := url.PathUnescape(text)
		if !found || err != nil || !octets(text) {
			return nil, apierr.Invalid(caller.HeaderTags, ruleMember)
		}
		if _, twice := tags[name]; twice {
			return nil, apierr.Invalid(caller.HeaderTags, ruleTwice)
		}
		if tags[name] = decoded; len(tags) > maxTags {
			return nil, apierr.Invalid(caller.HeaderTags, ruleTags)
		}
	}
	return tags, Check(caller.HeaderTags, tags)
}

// octets reports whether a value consists of the characters that W3C Baggage has in one: printable ASCII without
// space, quotation mark, comma, semicolon and backslash.
func octets(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || c == '"' || c == ',' || c == ';' || c == '\\' {
			return false
		}
	}
	return true
}
