package channel

import (
	"bytes"
	"slices"
	"strings"
)

// secretPlace is the placeholder for a message's secret in its URLs and data.
const secretPlace = "{secret}"

// Private returns the message as its one recipient gets it, with the secret in place of the placeholder. A value that
// holds the result must be sealed, and erased once the message is sent.
func (m Message) Private() Message {
	if m.Secret == "" {
		return m
	}
	m.Target.Data = bytes.ReplaceAll(m.Target.Data, []byte(secretPlace), []byte(m.Secret))
	return m.withSecret(m.Secret)
}

// Public returns the message as it may be stored and shown: without the secret in its URLs, and without the data if
// that contains the placeholder.
func (m Message) Public() Message {
	if m.Secret == "" {
		return m
	}
	if bytes.Contains(m.Target.Data, []byte(secretPlace)) {
		m.Target.Data = nil
	}
	return m.withSecret("")
}

// withSecret returns the message with an empty Secret, and with text in place of the placeholder in its URLs.
func (m Message) withSecret(text string) Message {
	m.Secret = ""
	m.Target.URL = strings.ReplaceAll(m.Target.URL, secretPlace, text)
	m.Actions = slices.Clone(m.Actions)
	for i := range m.Actions {
		m.Actions[i].URL = strings.ReplaceAll(m.Actions[i].URL, secretPlace, text)
	}
	return m
}
