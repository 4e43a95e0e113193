package channel

import (
	"bytes"
	"slices"
	"strings"
)

// secretPlace stands for a message's secret in its URLs and its data.
const secretPlace = "{secret}"

// Private returns the message as its one recipient gets it: with the secret in its place. What holds the result is sealed,
// and erased once the message is sent.
func (m Message) Private() Message {
	if m.Secret == "" {
		return m
	}
	m.Target.Data = bytes.ReplaceAll(m.Target.Data, []byte(secretPlace), []byte(m.Secret))
	return m.withSecret(m.Secret)
}

// Public returns the message as it may be stored and shown: its URLs lack the secret, and data that names it is left out.
func (m Message) Public() Message {
	if m.Secret == "" {
		return m
	}
	if bytes.Contains(m.Target.Data, []byte(secretPlace)) {
		m.Target.Data = nil
	}
	return m.withSecret("")
}

// withSecret returns the message without a field for the secret, and with a text in the secret's place in its URLs.
func (m Message) withSecret(text string) Message {
	m.Secret = ""
	m.Target.URL = strings.ReplaceAll(m.Target.URL, secretPlace, text)
	m.Actions = slices.Clone(m.Actions)
	for i := range m.Actions {
		m.Actions[i].URL = strings.ReplaceAll(m.Actions[i].URL, secretPlace, text)
	}
	return m
}
