package dispatch

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"

	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/signing"
)

const (
	// minSecret is the shortest text that is replaced, in bytes. Shorter parts of a credential ("Bearer", "v1") are
	// ordinary words. If the credential itself is shorter, the receiver's text is not kept.
	minSecret = 8
	// redacted replaces a secret. It is at most minSecret+2 bytes long, so that a text grows by at most a quarter.
	redacted = "[redacted]"
)

// redactor removes the secrets of one attempt from the receiver's text. A text of n bytes takes one pass and at most
// n*m steps, where m is the longest secret, which the limits on custom headers bound. Replacements are not searched
// again. A redactor is not safe for concurrent use.
type redactor struct {
	secrets  []string
	prepared bool
	// short holds the credentials that are too short to be distinguished from ordinary text.
	short    []string
	longest  int
	replacer *strings.Replacer // nil without secrets
}

func newRedactor(secrets []string) *redactor { return &redactor{secrets: secrets} }

// prepare builds the replacer. It runs once, on first use: many attempts never need it.
func (r *redactor) prepare() {
	if r.prepared {
		return
	}
	r.prepared = true
	forms := make(map[string]struct{})
	for _, value := range r.secrets {
		r.add(forms, value)
	}
	if len(forms) == 0 {
		return
	}
	// Of two secrets that begin at the same place, the Replacer takes the first.
	longestFirst := slices.SortedFunc(maps.Keys(forms), func(a, b string) int { return len(b) - len(a) })
	r.longest = len(longestFirst[0])
	pairs := make([]string, 0, 2*len(forms))
	for _, form := range longestFirst {
		pairs = append(pairs, form, redacted)
	}
	r.replacer = strings.NewReplacer(pairs...)
}

// add collects the forms in which a receiver may repeat a secret: the credential and its parts, each also encoded as
// in JSON and URLs.
func (r *redactor) add(forms map[string]struct{}, value string) {
	for _, credential := range credentials(value) {
		if credential != "" && len(credential) < minSecret {
			r.short = append(r.short, credential)
		}
		written(forms, credential)
	}
	for part := range strings.FieldsFuncSeq(value, func(c rune) bool { return strings.ContainsRune(" ;,\"", c) }) {
		_, parameter, _ := strings.Cut(part, "=")
		written(forms, part)
		written(forms, parameter)
	}
}

// credentials returns the parts of a header value or signing secret that grant access: the whole value, the part
// after a scheme or prefix, and the password of Basic (RFC 7617), or the user where the password is empty.
func credentials(value string) []string {
	value = strings.TrimSpace(value)
	all := []string{value}
	if key, standard := strings.CutPrefix(value, signing.StandardPrefix); standard {
		all = append(all, key)
	}
	scheme, rest, found := strings.Cut(value, " ")
	if !found || strings.ContainsAny(scheme, `=;,"`) {
		return all
	}
	rest = strings.TrimSpace(rest)
	all = append(all, rest)
	if pair, err := base64.StdEncoding.DecodeString(rest); err == nil && strings.EqualFold(scheme, "Basic") {
		user, password, _ := strings.Cut(string(pair), ":")
		if password == "" {
			password = user
		}
		all = append(all, string(pair), password)
	}
	return all
}

// written adds a text as it is and as encoded in JSON and URLs, unless it is too short.
func written(forms map[string]struct{}, text string) {
	if len(text) < minSecret {
		return
	}
	forms[text] = struct{}{}
	forms[url.QueryEscape(text)] = struct{}{}
	if quoted, err := json.Marshal(text); err == nil { // A string always encodes.
		escaped := string(quoted[1 : len(quoted)-1])
		forms[escaped] = struct{}{}
		forms[strings.ReplaceAll(escaped, "/", `\/`)] = struct{}{}
	}
}

// text returns the receiver's text without the secrets that it may repeat. It returns "" and false when nothing may
// be kept, because a secret is too short to be found.
func (r *redactor) text(said string) (text string, kept bool) {
	if said == "" {
		return "", true
	}
	r.prepare()
	if len(r.short) > 0 {
		return "", false
	}
	return r.replace(said), true
}

// replace returns said with a replacement for each secret that is not short. It runs after prepare.
func (r *redactor) replace(said string) string {
	if r.replacer == nil {
		return said
	}
	return r.replacer.Replace(said)
}

// retryAfter returns the value of a Retry-After header as text does. If a secret is short, it still returns a valid value,
// which is a number or a date, unless that contains the secret.
func (r *redactor) retryAfter(value string, valid bool) string {
	text, kept := r.text(value)
	contained := func(short string) bool { return strings.Contains(value, short) }
	if kept || !valid || slices.ContainsFunc(r.short, contained) {
		return text
	}
	return r.replace(value)
}

// responseText returns the beginning of a response body as text, at most maxResponseText bytes. cut reports whether
// there was more, or whether nothing may be kept. whole reports whether body is complete; if not, it may end within a
// secret, so its end is removed.
func (r *redactor) responseText(body []byte, whole bool) (text string, cut bool) {
	text, kept := r.text(string(body))
	if !kept {
		return "", true
	}
	if !whole {
		text = text[:max(0, len(text)-2*r.longest)]
	}
	return delivery.Text(text, maxResponseText), !whole || len(text) > maxResponseText
}
