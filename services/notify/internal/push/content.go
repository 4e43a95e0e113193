package push

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/google/uuid"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/inbox"
)

// Content is the JSON object that a page's service worker receives:
//
//	{"notification_id", "tag", "title", "body", "url"?, "site_id"?, "data"?, "actions"?: [{"action", "title", "url"?}]}
//
// Id and tag are added when a push is made.
type Content []byte

// idRoom is the size of the id and of the largest tag in the object, in bytes.
const idRoom = len(`"notification_id":"00000000-0000-0000-0000-000000000000","tag":"00000000-0000-0000-0000-000000000000",`)

// textRoom is how much of the object actions leave to the text, in bytes.
const textRoom = 256

// ellipsis ends a shortened text.
const ellipsis = "…"

// ErrNoRoom reports that a message does not fit, even without its text.
var ErrNoRoom = errors.New("no room for the text")

// Fitted is a content that fits.
type Fitted struct {
	Content Content
	// Shortened reports that the text was shortened.
	Shortened bool
	// Actions is how many of the message's actions are included, the first ones.
	Actions int
}

// NewContent returns the content of a message, at most limit bytes including id and tag. It includes the first actions
// that leave room for the text, or for the beginning of a long one.
func NewContent(m channel.Message, limit int) (Fitted, error) {
	limit -= idRoom
	room, length := limit-len(content(m, "", nil)), len(quoted(m.Text))-len(`""`)
	if room < min(length, len(ellipsis)) {
		return Fitted{}, ErrNoRoom
	}
	actions := fitting(m, room-min(length, textRoom))
	whole := content(m, m.Text, actions)
	if len(whole) <= limit {
		return Fitted{whole, false, len(actions)}, nil
	}
	room = limit - len(content(m, ellipsis, actions))
	return Fitted{content(m, shorten(m.Text, room)+ellipsis, actions), true, len(actions)}, nil
}

// fitting returns the first actions of a message that take at most room bytes.
func fitting(m channel.Message, room int) []inbox.Action {
	bare := len(content(m, "", nil))
	for n := len(m.Actions); n > 0; n-- {
		if len(content(m, "", m.Actions[:n]))-bare <= room {
			return m.Actions[:n]
		}
	}
	return nil
}

// content encodes the object. Data is included unchanged.
func content(m channel.Message, text string, actions []inbox.Action) Content {
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
	for i, a := range actions {
		separator := ","
		if i == 0 {
			separator = `,"actions":[`
		}
		fmt.Fprintf(&b, `%s{"action":%s,"title":%s`, separator, quoted(a.ID), quoted(a.Label))
		if a.URL != "" {
			fmt.Fprintf(&b, `,"url":%s`, quoted(a.URL))
		}
		b.WriteByte('}')
	}
	if len(actions) > 0 {
		b.WriteByte(']')
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

// Of returns the content with the id of its send and its tag; an empty tag is the id.
func (c Content) Of(send uuid.UUID, tag string) []byte {
	id := send.String()
	b := make([]byte, 0, len(c)+idRoom)
	b = append(b, `{"notification_id":"`...)
	b = append(b, id...)
	b = append(b, `","tag":"`...)
	b = append(b, cmp.Or(tag, id)...)
	b = append(b, `",`...)
	return append(b, c[1:]...)
}

// work is the stored work of a send, common to all its pushes.
type work struct {
	Content Content `json:"content"`
	// User is whom the message is for; empty for broadcasts and one-off devices, and in work of earlier releases.
	User string `json:"user,omitempty"`
	// Private is the content with the message's secret, for devices that User has registered; empty if the message has
	// no secret or no user.
	Private Content `json:"private,omitempty"`
	TTL     int     `json:"ttl"`
	Urgency string  `json:"urgency"`
	Topic   string  `json:"topic,omitempty"`
	// Tag is that of the first message or its topic; empty for the id of the send.
	Tag string `json:"tag,omitempty"`
	// Broadcast pushes share the sender's key pair.
	Broadcast bool `json:"broadcast,omitempty"`
	// Subscription is the one-off device; KeyID names the key to sign with.
	Subscription []byte `json:"subscription,omitempty"`
	KeyID        string `json:"key_id,omitempty"`
}

// contentFor returns what a device gets. Its registration may have passed to another user since the message was accepted.
func (w work) contentFor(to *Sealed) Content {
	if len(w.Private) > 0 && w.User != "" && to.ByUser && to.User == w.User {
		return w.Private
	}
	return w.Content
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
