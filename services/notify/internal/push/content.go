package push

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/google/uuid"

	"switchyard.dev/services/notify/internal/channel"
)

// Content is the JSON object that a page's service worker receives:
//
//	{"notification_id", "title", "body", "url"?, "site_id"?, "data"?}
//
// The id is added when a push is made: a message has no id before it is accepted.
type Content []byte

// idRoom is the size of the id in the object, in bytes.
const idRoom = len(`"notification_id":"00000000-0000-0000-0000-000000000000",`)

// ellipsis ends a shortened text.
const ellipsis = "…"

// ErrNoRoom reports that a message does not fit, even without its text.
var ErrNoRoom = errors.New("no room for the text")

// NewContent returns the content of a message, at most limit bytes including the id. It reports whether the text was
// shortened to fit.
func NewContent(m channel.Message, limit int) (Content, bool, error) {
	whole := content(m, m.Text)
	if len(whole)+idRoom <= limit {
		return whole, false, nil
	}
	room := limit - idRoom - len(content(m, ellipsis))
	if room < 0 {
		return nil, false, ErrNoRoom
	}
	return content(m, shorten(m.Text, room)+ellipsis), true, nil
}

// content encodes the object. Data is included unchanged.
func content(m channel.Message, text string) Content {
	var b bytes.Buffer
	b.WriteString(`{"title":`)
	b.Write(quoted(m.Subject))
	b.WriteString(`,"body":`)
	b.Write(quoted(text))
	for _, field := range []struct{ name, value string }{{"url", m.Target.URL}, {"site_id", m.Target.Site}} {
		if field.value != "" {
			fmt.Fprintf(&b, `,%q:%s`, field.name, quoted(field.value))
		}
	}
	if len(m.Target.Data) > 0 {
		b.WriteString(`,"data":`)
		b.Write(bytes.TrimSpace(m.Target.Data))
	}
	b.WriteByte('}')
	return b.Bytes()
}

// quoted returns a JSON string.
func quoted(text string) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // A string always encodes.
	return bytes.TrimRight(b.Bytes(), "\n")
}

// shorten returns the beginning of a text that takes at most room bytes in JSON.
func shorten(text string, room int) string {
	for i, r := range text {
		size := utf8.RuneLen(r)
		if r < ' ' || r == '"' || r == '\\' || r == utf8.RuneError || r == '\u2028' || r == '\u2029' || r == 0x7f {
			size = len(quoted(string(r))) - len(`""`)
		}
		if room -= size; room < 0 {
			return text[:i]
		}
	}
	return text
}

// Of returns the content with the id of its send.
func (c Content) Of(send uuid.UUID) []byte {
	b := make([]byte, 0, len(c)+idRoom)
	b = append(b, `{"notification_id":"`...)
	b = append(b, send.String()...)
	b = append(b, `",`...)
	return append(b, c[1:]...)
}

// work is the stored work of a send, common to all its pushes.
type work struct {
	Content Content `json:"content"`
	TTL     int     `json:"ttl"`
	Urgency string  `json:"urgency"`
	Topic   string  `json:"topic,omitempty"`
	// Broadcast pushes share the sender's key pair.
	Broadcast bool `json:"broadcast,omitempty"`
	// Subscription is the one-off device; KeyID names the key to sign with.
	Subscription []byte `json:"subscription,omitempty"`
	KeyID        string `json:"key_id,omitempty"`
}

func (w work) bytes() []byte {
	text, err := json.Marshal(w)
	if err != nil {
		panic(err) // No field can fail.
	}
	return text
}

func readWork(text []byte) (work, error) {
	var w work
	if err := json.Unmarshal(text, &w); err != nil || len(w.Content) < 2 {
		return work{}, errors.New("push: the work cannot be read")
	}
	return w, nil
}
