package ticket_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/mcp/ticket"
	"switchyard.dev/services/gateway/internal/mcp/ticket/tickettest"
	"switchyard.dev/services/platform/testkit/growth"
)

const purpose = "ticket of these tests"

type content struct {
	Name string `json:"n,omitempty"`
}

var (
	first  = tickettest.First
	second = tickettest.Second
)

// A ticket is read by every replica that has its key, for its own purpose and organization alone, until it expires.
func TestTickets(t *testing.T) {
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	one, two := ticket.Tickets{Sealer: tickettest.Keys(t, first), Now: clock}, ticket.Tickets{Sealer: tickettest.Keys(t, second, first), Now: clock}
	text, err := one.Seal("acme", purpose, content{"x"}, now.Add(time.Minute))
	if err != nil || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		t.Fatalf("%q %v", text, err)
	}
	var got content
	if expires, err := two.Open("acme", purpose, text, &got); err != nil || got.Name != "x" || !expires.Equal(now.Add(time.Minute)) {
		t.Fatalf("on another replica: %+v, until %s, %v", got, expires, err)
	}
	alone := ticket.Tickets{Sealer: tickettest.Keys(t, second), Now: clock}
	for name, open := range map[string]func() error{
		"another organization": func() error { _, err := one.Open("other", purpose, text, &got); return err },
		"another purpose":      func() error { _, err := one.Open("acme", purpose+"!", text, &got); return err },
		"a short purpose":      func() error { _, err := one.Open("acme", "short", text, &got); return err },
		"without its key":      func() error { _, err := alone.Open("acme", purpose, text, &got); return err },
		"cut":                  func() error { _, err := one.Open("acme", purpose, text[:len(text)-1], &got); return err },
		"changed":              func() error { _, err := one.Open("acme", purpose, changed(text), &got); return err },
		"padded":               func() error { _, err := one.Open("acme", purpose, text+"=", &got); return err },
		"none":                 func() error { _, err := one.Open("acme", purpose, "", &got); return err },
		"too large":            func() error { _, err := one.Open("acme", purpose, strings.Repeat("a", ticket.Max+1), &got); return err },
		"of another form":      func() error { var n struct{ N int }; _, err := one.Open("acme", purpose, text, &n); return err },
	} {
		if err := open(); !errors.Is(err, ticket.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	now = now.Add(time.Minute)
	if _, err := one.Open("acme", purpose, text, &got); !errors.Is(err, ticket.ErrInvalid) {
		t.Errorf("expired: %v", err)
	}
	for name, seal := range map[string]func() (string, error){
		"a short purpose": func() (string, error) { return one.Seal("acme", "short", content{"x"}, now) },
		"no object":       func() (string, error) { return one.Seal("acme", purpose, []int{1}, now) },
		"too large": func() (string, error) {
			return one.Seal("acme", purpose, content{strings.Repeat("x", ticket.Max)}, now)
		},
		"nothing to seal": func() (string, error) { return one.Seal("acme", purpose, func() {}, now) },
	} {
		if text, err := seal(); err == nil {
			t.Errorf("%s: %q", name, text)
		}
	}
	text, err = one.Seal("acme", purpose, content{}, now.Add(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := one.Open("acme", purpose, text, &got); err != nil {
		t.Errorf("an empty content: %v", err)
	}
}

// changed returns a sealed text with another character in its middle.
func changed(text string) string {
	at, other := len(text)/2, "A"
	if text[at] == 'A' {
		other = "B"
	}
	return text[:at] + other + text[at+1:]
}

func TestOpenGrowsLinearly(t *testing.T) {
	one := ticket.Tickets{Sealer: tickettest.Keys(t, first)}
	growth.Linear(t, growth.EachText(growth.Text, func(text string) { _, _ = one.Open("acme", purpose, text, new(content)) })...)
}

// FuzzOpen checks that no text but a sealed one is a ticket.
func FuzzOpen(f *testing.F) {
	one := ticket.Tickets{Sealer: tickettest.Keys(f, first)}
	f.Add("a.b")
	f.Add("0011223344556677.AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := one.Open("acme", purpose, text, new(content)); err == nil {
			t.Fatalf("%q was opened", text)
		}
	})
}
