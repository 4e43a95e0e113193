package dispatch

import (
	"encoding/base64"
	"slices"
	"strings"

	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/signing"
)

// minSecret is the shortest part of a credential that is hidden by itself:
// shorter ones ("Bearer", "v1") would take ordinary words out of a text.
const minSecret = 8

// echoes are the forms in which a receiver may repeat a secret: the value, what
// follows its scheme or prefix, its parameters, and the user and password that
// Basic holds (RFC 7617). The longest comes first.
func echoes(value string) []string {
	forms := []string{value}
	if key, standard := strings.CutPrefix(value, signing.StandardPrefix); standard {
		forms = append(forms, key)
	}
	scheme, rest, found := strings.Cut(value, " ")
	if found {
		forms = append(forms, strings.TrimSpace(rest))
	}
	if pair, err := base64.StdEncoding.DecodeString(strings.TrimSpace(rest)); err == nil && strings.EqualFold(scheme, "Basic") {
		_, password, _ := strings.Cut(string(pair), ":")
		forms = append(forms, string(pair), password)
	}
	for part := range strings.FieldsFuncSeq(value, func(r rune) bool { return strings.ContainsRune(" ;,\"", r) }) {
		_, parameter, _ := strings.Cut(part, "=")
		for _, form := range []string{part, parameter} {
			if len(form) >= minSecret {
				forms = append(forms, form)
			}
		}
	}
	forms = slices.DeleteFunc(forms, func(form string) bool { return form == "" })
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) })
	return slices.Compact(forms)
}

// redact takes out of a target's words the secrets that it may have echoed.
func redact(text string, secrets []string) string {
	if text == "" {
		return ""
	}
	for _, value := range secrets {
		for _, form := range echoes(value) {
			text = strings.ReplaceAll(text, form, "[redacted]")
		}
	}
	return text
}

// responseText is the start of a body as text. Secrets are taken out before it is
// cut.
func responseText(body []byte, secrets []string) (text string, cut bool) {
	text = redact(string(body), secrets)
	return delivery.Text(text, maxResponseText), len(text) > maxResponseText
}
