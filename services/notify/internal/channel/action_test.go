package channel_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/inbox"
)

func TestActionRules(t *testing.T) {
	ok := inbox.Action{ID: "a", Label: "A"}
	with := func(change func(*inbox.Action)) []inbox.Action {
		a := ok
		change(&a)
		return []inbox.Action{{ID: "first", Label: "First"}, a}
	}
	link := func(url string) []inbox.Action { return with(func(a *inbox.Action) { a.URL = url }) }
	label := func(text string) []inbox.Action { return with(func(a *inbox.Action) { a.Label = text }) }
	tests := map[string]struct {
		actions []inbox.Action
		field   string // refused, or "" for accepted
	}{
		"none":              {nil, ""},
		"three":             {[]inbox.Action{{ID: "a", Label: "A"}, {ID: "b", Label: "B"}, {ID: "c", Label: "C"}}, ""},
		"four":              {make([]inbox.Action, 4), "actions"},
		"the same id twice": {[]inbox.Action{ok, ok}, "actions[1].id"},
		"an id in capitals": {with(func(a *inbox.Action) { a.ID = "A" }), "actions[1].id"},
		"a line after it":   {with(func(a *inbox.Action) { a.ID = "a\n" }), "actions[1].id"},
		"a long id":         {with(func(a *inbox.Action) { a.ID = strings.Repeat("a", 33) }), "actions[1].id"},
		"no label":          {label(""), "actions[1].label"},
		"blanks":            {label("   "), "actions[1].label"},
		"the longest label": {label(strings.Repeat("ä", 40)), ""},
		"a longer one":      {label(strings.Repeat("ä", 41)), "actions[1].label"},
		"an emoji":          {label("Go 🚂"), ""},
		"two lines":         {label("a\nb"), "actions[1].label"},
		"turned text":       {label("Approve \u202eyned"), "actions[1].label"},
		"invisible":         {label("a\u200bb"), "actions[1].label"},
		"no UTF-8":          {label("a\xff"), "actions[1].label"},
		"a style":           {with(func(a *inbox.Action) { a.Style = "danger" }), ""},
		"another style":     {with(func(a *inbox.Action) { a.Style = "red" }), "actions[1].style"},
		"a URL":             {link("https://a.example:8443/x?y=z#f"), ""},
		"http":              {link("http://localhost/x"), ""},
		"a path":            {link("/x"), "actions[1].url"},
		"script":            {link("javascript:alert(1)"), "actions[1].url"},
		"opaque":            {link("https:a.example"), "actions[1].url"},
		"a user":            {link("https://a.example@evil.example/"), "actions[1].url"},
		"a blank":           {link("https://a.example/ x"), "actions[1].url"},
		"a line break":      {link("https://a.example/\r\nBcc: x"), "actions[1].url"},
		"Slack's markup":    {link("https://a.example/|x>"), "actions[1].url"},
		"a long URL":        {link("https://a.example/" + strings.Repeat("x", 2048)), "actions[1].url"},
		"the longest value": {with(func(a *inbox.Action) { a.Value = strings.Repeat("v", 512) }), ""},
		"a longer value":    {with(func(a *inbox.Action) { a.Value = strings.Repeat("v", 513) }), "actions[1].value"},
	}
	registry := channel.NewRegistry(false, channel.InAppSender{})
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := registry.Prepare(t.Context(), []channel.Name{channel.InApp}, channel.Message{Text: "x", Actions: tt.actions})
			if (err == nil) != (tt.field == "") || err != nil && !strings.HasPrefix(err.Error(), tt.field+": ") {
				t.Errorf("error %v, want one about %q", err, tt.field)
			}
		})
	}
}

// Whatever an action holds, it is refused, or its label is one line that is shown as it is and its URL is one of http.
func FuzzActions(f *testing.F) {
	f.Add("a", "Approve", "https://a.example/", "v")
	f.Add("a_1", "\u202e", "https://u@a.example", "\x00")
	registry := channel.NewRegistry(false, channel.InAppSender{})
	f.Fuzz(func(t *testing.T, id, label, url, value string) {
		m := channel.Message{Text: "x", Actions: []inbox.Action{{ID: id, Label: label, URL: url, Value: value}}}
		if _, err := registry.Prepare(t.Context(), []channel.Name{channel.InApp}, m); err != nil {
			return
		}
		if utf8.RuneCountInString(label) > 40 || strings.ContainsAny(label, "\r\n\t\x00\u202e\u200b") || !utf8.ValidString(label) {
			t.Errorf("label %q", label)
		}
		if url != "" && (!strings.HasPrefix(strings.ToLower(url), "http") || strings.ContainsAny(url, " \r\n<>|\"") || len(url) > 2048) {
			t.Errorf("url %q", url)
		}
		if len(value) > 512 || len(id) > 32 {
			t.Errorf("id %q, value %q", id, value)
		}
	})
}
