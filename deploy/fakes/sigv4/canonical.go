package sigv4

import (
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
)

// canonical returns the canonical request.
func (o Options) canonical(r *http.Request, signed []string, hash string) string {
	// What was sent, byte for byte: a parsed URL may have lost an escape.
	target := r.RequestURI
	if target == "" {
		target = r.URL.RequestURI()
	}
	at, query, _ := strings.Cut(target, "?")
	var headers strings.Builder
	for _, name := range signed {
		headers.WriteString(name + ":" + header(r, name) + "\n")
	}
	return strings.Join([]string{
		r.Method, o.canonicalPath(at), canonicalQuery(query), headers.String(), strings.Join(signed, ";"), hash,
	}, "\n")
}

// canonicalPath returns a path without relative and empty segments, each segment escaped once more than it was sent.
func (o Options) canonicalPath(at string) string {
	clean := path.Clean("/" + at)
	if clean != "/" && (strings.HasSuffix(at, "/") || strings.HasSuffix(at, "/.") || strings.HasSuffix(at, "/..")) {
		clean += "/"
	}
	if o.escapesOnce {
		return clean
	}
	return escape(clean, "/")
}

// canonicalQuery returns the parameters escaped and sorted, by name and then by value.
func canonicalQuery(query string) string {
	var all [][2]string
	for part := range strings.SplitSeq(query, "&") {
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		all = append(all, [2]string{again(name), again(value)})
	}
	slices.SortFunc(all, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	var b strings.Builder
	for i, pair := range all {
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString(pair[0] + "=" + pair[1])
	}
	return b.String()
}

// again returns a part of a query escaped as RFC 3986 has it, whatever escapes it was sent with.
func again(part string) string {
	if plain, err := url.PathUnescape(part); err == nil { // A plus sign is a plus sign.
		part = plain
	}
	return escape(part, "")
}

// escape escapes all bytes but unreserved ones (RFC 3986, section 2.3) and those of keep.
func escape(text, keep string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-._~"+keep, c) >= 0:
			b.WriteByte(c)
		default:
			b.WriteString("%" + string(digits[c>>4]) + string(digits[c&15]))
		}
	}
	return b.String()
}

// header returns the canonical value of a header.
func header(r *http.Request, name string) string {
	switch name {
	case "host":
		return r.Host
	case "content-length":
		return strconv.FormatInt(r.ContentLength, 10)
	}
	var values []string
	for _, value := range r.Header.Values(name) {
		values = append(values, strings.Join(strings.Fields(value), " "))
	}
	return strings.Join(values, ",")
}
