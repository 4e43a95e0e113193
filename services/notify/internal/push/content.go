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

// Content is what a page's service worker gets, as a JSON object:
//
//	{"notification_id", "title", "body", "url"?, "site_id"?, "data"?}
//
// The id is added when a push is made: the message has none before it is accepted.
type Content []byte

// idRoom is what the id takes in the object, in bytes.
const idRoom = len(`"notification_id":"00000000-0000-0000-0000-000000000000",`)

// ellipsis ends a text that was shortened.
const ellipsis = "…"

// ErrNoRoom says that a message doesn't fit without its text either.
var ErrNoRoom = errors.New("no room for the text")

// NewContent makes the content of a message of at most limit bytes with the id in
// it. The text of a message that is larger is shortened, which it reports.
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

// content writes the object. Data goes in as it came.
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

// quoted is a JSON string.
func quoted(text string) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // a string always encodes
	return bytes.TrimRight(b.Bytes(), "\n")
}

// shorten gives the beginning of a text that takes at most room bytes in JSON.
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

// Of is the content with the id of its send.
func (c Content) Of(send uuid.UUID) []byte {
	b := make([]byte, 0, len(c)+idRoom)
	b = append(b, `{"notification_id":"`...)
	b = append(b, send.String()...)
	b = append(b, `",`...)
	return append(b, c[1:]...)
}

// work is what all pushes of a send have in common, as it is stored.
type work struct {
	Content Content `json:"content"`
	TTL     int     `json:"ttl"`
	Urgency string  `json:"urgency"`
	Topic   string  `json:"topic,omitempty"`
	// Broadcast pushes share the sender's side of the key agreement.
	Broadcast bool `json:"broadcast,omitempty"`
	// Subscription is the one device that isn't stored, with the key to sign with.
	Subscription []byte `json:"subscription,omitempty"`
	KeyID        string `json:"key_id,omitempty"`
}

func (w work) bytes() []byte {
	text, err := json.Marshal(w)
	if err != nil {
		panic(err) // It has no field that can fail.
	}
	return text
}

func readWork(text []byte) (work, error) {
	var w work
	if err := json.Unmarshal(text, &w); err != nil || len(w.Content) < 2 {
		return work{}, errors.New("push: the work can't be read")
	}
	return w, nil
}
