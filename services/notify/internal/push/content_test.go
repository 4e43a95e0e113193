package push

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/webpush"
)

// shown is what a service worker reads.
type shown struct {
	ID    string          `json:"notification_id"`
	Title string          `json:"title"`
	Body  string          `json:"body"`
	URL   string          `json:"url"`
	Site  string          `json:"site_id"`
	Data  json.RawMessage `json:"data"`
}

func read(t *testing.T, c Content, id uuid.UUID) shown {
	t.Helper()
	var s shown
	if err := json.Unmarshal(c.Of(id), &s); err != nil {
		t.Fatalf("%v: %s", err, c.Of(id))
	}
	return s
}

func TestContent(t *testing.T) {
	id := uuid.New()
	m := channel.Message{Subject: `"Order" <7>`, Text: "Shipped & gone\n", Target: channel.Target{
		URL: "/orders/7?a=b&c", Site: "shop", Data: []byte(` {"b": 1,"a":12345678901234567890} `),
	}}
	c, shortened, err := NewContent(m, webpush.MaxPlaintext)
	if err != nil || shortened {
		t.Fatalf("%v, %v", shortened, err)
	}
	const want = `{"title":"\"Order\" <7>","body":"Shipped & gone\n","url":"/orders/7?a=b&c","site_id":"shop","data":{"b": 1,"a":12345678901234567890}}`
	if string(c) != want {
		t.Errorf("content %s, want %s", c, want)
	}
	got := read(t, c, id)
	shows := shown{id.String(), m.Subject, m.Text, got.URL, got.Site, json.RawMessage(`{"b": 1,"a":12345678901234567890}`)}
	if diff := cmp.Diff(shows, got); diff != "" {
		t.Errorf("shown (-want +got):\n%s", diff)
	}
}

func TestContentIsShortenedToTheByte(t *testing.T) {
	const limit = 600
	for name, text := range map[string]string{
		"ascii": strings.Repeat("x", 700), "umlauts": strings.Repeat("ü", 700), "emoji": strings.Repeat("🚂", 700),
		"quotes": strings.Repeat(`"`, 700), "breaks": strings.Repeat("\n", 700), "control": strings.Repeat("\x01", 700),
		"separators": strings.Repeat("\u2028", 700), "mixed": strings.Repeat("a\"🚂\u2029\t<ü", 200), "delete": strings.Repeat("\x7f", 700),
	} {
		t.Run(name, func(t *testing.T) {
			c, shortened, err := NewContent(channel.Message{Text: text}, limit)
			if err != nil || !shortened {
				t.Fatalf("%v, %v", shortened, err)
			}
			got := read(t, c, uuid.New())
			rest, cut := strings.CutSuffix(got.Body, ellipsis)
			if !cut || !strings.HasPrefix(text, rest) || !utf8.ValidString(got.Body) {
				t.Errorf("body %q", got.Body)
			}
			// The next character would have been too much.
			next, _ := utf8.DecodeRuneInString(text[len(rest):])
			if size := len(c) + idRoom; size > limit || size+len(quoted(string(next)))-2 <= limit {
				t.Errorf("%d bytes of %d", size, limit)
			}
		})
	}
}

func TestContentFits(t *testing.T) {
	exact := channel.Message{Text: strings.Repeat("x", 600-idRoom-len(`{"title":"","body":""}`))}
	if c, shortened, err := NewContent(exact, 600); err != nil || shortened || len(c.Of(uuid.New())) != 600 {
		t.Errorf("a message of just the size: %d bytes, %v, %v", len(c), shortened, err)
	}
	exact.Text += "x"
	if c, shortened, err := NewContent(exact, 600); err != nil || !shortened || len(c.Of(uuid.New())) > 600 {
		t.Errorf("a message of one more: %d bytes, %v, %v", len(c), shortened, err)
	}
	if _, _, err := NewContent(channel.Message{Subject: strings.Repeat("x", 600)}, 600); !errors.Is(err, ErrNoRoom) {
		t.Errorf("a subject that fills it: %v", err)
	}
}

func FuzzContent(f *testing.F) {
	f.Add("subject", "text", "/url", 600)
	f.Add("\xff", "\xf0\x9f\x9a\x82\"\\", "", 512)
	f.Fuzz(func(t *testing.T, subject, text, link string, limit int) {
		limit = 512 + int(uint(limit)%3500)
		c, _, err := NewContent(channel.Message{Subject: subject, Text: text, Target: channel.Target{URL: link}}, limit)
		if err != nil {
			return
		}
		if whole := c.Of(uuid.Nil); len(whole) > limit || !json.Valid(whole) {
			t.Errorf("%d bytes of %d: %s", len(whole), limit, whole)
		}
	})
}
