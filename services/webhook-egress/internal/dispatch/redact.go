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
	// minSecret is the shortest text that is replaced, in bytes. Shorter parts of a
	// credential ("Bearer", "v1") are ordinary words; where the credential itself is
	// shorter, what the receiver said is not kept.
	minSecret = 8
	// redacted stands for a secret. It is at most minSecret+2 bytes long, so that a
	// text grows by a quarter at most.
	redacted = "[redacted]"
)

// redactor takes the secrets of one attempt out of what its receiver said. A
// text of n bytes takes one pass and at most n*m steps, m being the longest
// secret, which the caps on custom headers bound; what is put in is not searched.
// It is not safe for concurrent use.
type redactor struct {
	secrets  []string
	prepared bool
	// short: a secret can't be told from ordinary text.
	short    bool
	longest  int
	replacer *strings.Replacer // nil without secrets
}

func newRedactor(secrets []string) *redactor { return &redactor{secrets: secrets} }

// prepare does once what many attempts never need.
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
	// Of two secrets that begin at one place, the Replacer takes the first.
	longestFirst := slices.SortedFunc(maps.Keys(forms), func(a, b string) int { return len(b) - len(a) })
	r.longest = len(longestFirst[0])
	pairs := make([]string, 0, 2*len(forms))
	for _, form := range longestFirst {
		pairs = append(pairs, form, redacted)
	}
	r.replacer = strings.NewReplacer(pairs...)
}

// add notes the forms in which a receiver may repeat a secret: the credential
// and its parts, each also as JSON and URLs write it.
func (r *redactor) add(forms map[string]struct{}, value string) {
	for _, credential := range credentials(value) {
		r.short = r.short || credential != "" && len(credential) < minSecret
		written(forms, credential)
	}
	for part := range strings.FieldsFuncSeq(value, func(c rune) bool { return strings.ContainsRune(" ;,\"", c) }) {
		_, parameter, _ := strings.Cut(part, "=")
		written(forms, part)
		written(forms, parameter)
	}
}

// credentials returns what in a header's value or a signing secret grants access:
// the whole of it, what follows a scheme or prefix, and the password that Basic
// holds (RFC 7617), or the user where the password is empty.
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

// written adds a text as it is and as JSON and URLs write it, unless it is too short.
func written(forms map[string]struct{}, text string) {
	if len(text) < minSecret {
		return
	}
	forms[text] = struct{}{}
	forms[url.QueryEscape(text)] = struct{}{}
	if quoted, err := json.Marshal(text); err == nil { // a string always encodes
		escaped := string(quoted[1 : len(quoted)-1])
		forms[escaped] = struct{}{}
		forms[strings.ReplaceAll(escaped, "/", `\/`)] = struct{}{}
	}
}

// text is what a receiver said without the secrets that it may have repeated. It
// is "" and false when it must not be kept: a secret is too short to be found.
func (r *redactor) text(said string) (text string, kept bool) {
	if said == "" {
		return "", true
	}
	r.prepare()
	switch {
	case r.short:
		return "", false
	case r.replacer == nil:
		return said, true
	}
	return r.replacer.Replace(said), true
}

// responseText is the start of an answer's body as text, at most maxResponseText
// bytes. cut reports whether there was more, or whether nothing may be kept.
// whole says that body is all of it: else it may end within a secret, so that its
// end is left out.
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
