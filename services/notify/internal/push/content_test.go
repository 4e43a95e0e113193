package push

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/inbox"
	"switchyard.dev/services/notify/internal/webpush"
)

// shown is what a service worker reads.
type shown struct {
	ID    string          `json:"notification_id"`
	Tag   string          `json:"tag"`
	Title string          `json:"title"`
	Body  string          `json:"body"`
	URL   string          `json:"url"`
	Site  string          `json:"site_id"`
	Data  json.RawMessage `json:"data"`
}

func read(t *testing.T, c Content, id uuid.UUID) shown {
	t.Helper()
	var s shown
	if err := json.Unmarshal(c.Of(id, ""), &s); err != nil {
		t.Fatalf("%v: %s", err, c.Of(id, ""))
	}
	return s
}

func TestContent(t *testing.T) {
	id := uuid.New()
	m := channel.Message{Subject: `"Order" <7>`, Text: "Shipped & gone\n", Target: channel.Target{
		URL: "/orders/7?a=b&c", Site: "shop", Data: []byte(` {"b": 1,"a":12345678901234567890} `),
	}}
	fitted, err := NewContent(m, webpush.MaxPlaintext)
	if err != nil || fitted.Shortened {
		t.Fatalf("%v, %v", fitted.Shortened, err)
	}
	c := fitted.Content
	const want = `{"title":"\"Order\" <7>","body":"Shipped & gone\n","url":"/orders/7?a=b&c","site_id":"shop","data":{"b": 1,"a":12345678901234567890}}`
	if string(c) != want {
		t.Errorf("content %s, want %s", c, want)
	}
	got := read(t, c, id)
	shows := shown{id.String(), id.String(), m.Subject, m.Text, got.URL, got.Site, json.RawMessage(`{"b": 1,"a":12345678901234567890}`)}
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
			fitted, err := NewContent(channel.Message{Text: text}, limit)
			if err != nil || !fitted.Shortened {
				t.Fatalf("%v, %v", fitted.Shortened, err)
			}
			c := fitted.Content
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
	if f, err := NewContent(exact, 600); err != nil || f.Shortened || len(f.Content.Of(uuid.New(), "")) != 600 {
		t.Errorf("a message of just the size: %d bytes, %v, %v", len(f.Content), f.Shortened, err)
	}
	exact.Text += "x"
	if f, err := NewContent(exact, 600); err != nil || !f.Shortened || len(f.Content.Of(uuid.New(), "")) > 600 {
		t.Errorf("a message of one more: %d bytes, %v, %v", len(f.Content), f.Shortened, err)
	}
	if _, err := NewContent(channel.Message{Subject: strings.Repeat("x", 600)}, 600); !errors.Is(err, ErrNoRoom) {
		t.Errorf("a subject that fills it: %v", err)
	}
}

// Actions are left out where they would leave too little room for the text, and nothing else is cut for them.
func TestContentWithActions(t *testing.T) {
	actions := []inbox.Action{
		{ID: "approve", Label: `Approve "it" <b>`, Style: "primary", URL: "https://a.example/?a=b&c", Value: "secret"},
		{ID: "deny", Label: "Deny"},
		{ID: "more", Label: "More", URL: "https://a.example/" + strings.Repeat("x", 2000)},
	}
	tests := map[string]struct {
		text      string
		limit     int
		want      string
		actions   int
		shortened bool
	}{
		"all that fit": {
			"Hi", 600,
			`{"title":"S","body":"Hi","actions":[{"action":"approve","title":"Approve \"it\" <b>","url":"https://a.example/?a=b&c"},{"action":"deny","title":"Deny"}]}`,
			2, false,
		},
		"a long text keeps its room": {
			strings.Repeat("x", 1000), 390 + idRoom,
			`{"title":"S","body":"` + strings.Repeat("x", 269) + `…","actions":[{"action":"approve","title":"Approve \"it\" <b>","url":"https://a.example/?a=b&c"}]}`,
			1, true,
		},
		"none fits": {strings.Repeat("x", 200), 250 + idRoom, `{"title":"S","body":"` + strings.Repeat("x", 200) + `"}`, 0, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			fitted, err := NewContent(channel.Message{Subject: "S", Text: tt.text, Actions: actions}, tt.limit)
			if err != nil || string(fitted.Content) != tt.want || fitted.Actions != tt.actions || fitted.Shortened != tt.shortened {
				t.Errorf("%d actions, shortened %v, %v:\n%s\nwant\n%s", fitted.Actions, fitted.Shortened, err, fitted.Content, tt.want)
			}
		})
	}
}

// The pushes of a notification and of its updates have one tag and one topic, so that the last one replaces the others on
// a device that shows them and at a push service that keeps them.
func TestUpdatesReplaceWhatIsShown(t *testing.T) {
	first, update := uuid.MustParse("01890000-0000-7000-8000-000000000001"), uuid.MustParse("01890000-0000-7000-8000-000000000002")
	button := []inbox.Action{{ID: "a", Label: "A"}}
	tests := map[string]struct {
		m          channel.Message
		tag, topic string
	}{
		"a message":              {channel.Message{ID: first}, first.String(), ""},
		"one with buttons":       {channel.Message{ID: first, Actions: button}, first.String(), "AYkAAAAAcACAAAAAAAAAAQ"},
		"its update":             {channel.Message{ID: update, Updates: first}, first.String(), "AYkAAAAAcACAAAAAAAAAAQ"},
		"a topic of its own":     {channel.Message{ID: first, Actions: button, Target: channel.Target{Topic: "t"}}, "t", "krI0pMxriMn-GSxtgTHjoA"},
		"an update of the topic": {channel.Message{ID: update, Updates: first, Target: channel.Target{Topic: "t"}}, "t", "krI0pMxriMn-GSxtgTHjoA"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.m.Text, tt.m.Target.User = "Hi", "ann"
			prepared, err := NewSender(webpush.Hosts{}, nil, Limits{Content: 2000}).Prepare(t.Context(), tt.m)
			if err != nil {
				t.Fatal(err)
			}
			w, err := readWork(prepared.Body)
			if err != nil {
				t.Fatal(err)
			}
			var got shown
			if err := json.Unmarshal(w.Content.Of(tt.m.ID, w.Tag), &got); err != nil {
				t.Fatal(err)
			}
			if got.ID != tt.m.ID.String() || got.Tag != tt.tag || w.Topic != tt.topic {
				t.Errorf("id %s, tag %s, topic %q; want tag %s, topic %q", got.ID, got.Tag, w.Topic, tt.tag, tt.topic)
			}
		})
	}
}

// A caller's topic becomes one that every push service accepts (Apple decodes topics). It is the same each time, and
// differs between organizations and between sites.
func TestTopicsOnTheWire(t *testing.T) {
	seen := make(map[string]channel.Message)
	for _, text := range []string{"order-7", "order-7-paid1", "t", "-", strings.Repeat("a", 13), strings.Repeat("a", 31), strings.Repeat("a", 32), "b c"} {
		for _, of := range [][2]string{{"acme", ""}, {"acme", "shop"}, {"acme shop", ""}, {`acme" "shop`, ""}, {"other", "shop"}, {"", ""}} {
			m := channel.Message{Organization: of[0], Target: channel.Target{Site: of[1], Topic: text}}
			got := topic(m)
			if decoded, err := base64.RawURLEncoding.DecodeString(got); err != nil || len(decoded) != 16 || len(got) != 22 {
				t.Errorf("%+v: %q, want 22 characters of base64url: %v", m, got, err)
			}
			m.ID = uuid.New()
			if again := topic(m); again != got {
				t.Errorf("%+v: %q, then %q", m, got, again)
			}
			if other, known := seen[got]; known {
				t.Errorf("%+v and %+v have the topic %q", m, other, got)
			}
			seen[got] = m
		}
	}
}

func FuzzContent(f *testing.F) {
	f.Add("subject", "text", "/url", "Open", 600)
	f.Add("\xff", "\xf0\x9f\x9a\x82\"\\", "", "\xff", 512)
	f.Fuzz(func(t *testing.T, subject, text, link, label string, limit int) {
		limit = 512 + int(uint(limit)%3500)
		fitted, err := NewContent(channel.Message{
			Subject: subject, Text: text, Target: channel.Target{URL: link},
			Actions: []inbox.Action{{ID: "a", Label: label, URL: link}, {ID: "b", Label: label}},
		}, limit)
		if err != nil {
			return
		}
		if whole := fitted.Content.Of(uuid.Nil, ""); len(whole) > limit || !json.Valid(whole) {
			t.Errorf("%d bytes of %d: %s", len(whole), limit, whole)
		}
	})
}
