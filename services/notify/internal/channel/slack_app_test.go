package channel_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/inbox"
)

func TestSlackAppTargets(t *testing.T) {
	slack := channel.NewSlack(channel.SlackOptions{API: "https://slack.com/api", Tokens: secrets(t, "acme", "xoxb-1")})
	for place, ok := range map[string]bool{
		"C0123ABC": true, "G0123ABC": true, "D0123ABC": true, "U0123ABC": true, "W012A3CDE": true,
		"X0123ABC": false, "C1": false, "c0123abc": false, "C0123ABC\n": false, "#general": false, "C" + strings.Repeat("1", 21): false,
	} {
		m := channel.Message{Organization: "acme", Text: "x", Target: channel.Target{SlackChannel: place}}
		if _, err := slack.Prepare(t.Context(), m); (err == nil) != ok {
			t.Errorf("%q: %v, want ok %v", place, err, ok)
		}
	}
	both := channel.Message{Organization: "acme", Text: "x", Target: channel.Target{SlackChannel: "C0123ABC", WebhookURL: "https://hooks.slack.com/services/x"}}
	none := channel.Message{Organization: "other", Text: "x", Target: channel.Target{SlackChannel: "C0123ABC"}}
	for _, m := range []channel.Message{both, none} {
		if _, err := slack.Prepare(t.Context(), m); err == nil || !strings.Contains(err.Error(), "channel slack: target.slack_channel: ") {
			t.Errorf("%+v: %v", m.Target, err)
		}
	}
}

// A replica of a release that knows no app leaves its messages for later: it reads no place, and must not post a message to a
// person in the organization's own incoming webhook.
func TestSlackAppBesideAnOlderRelease(t *testing.T) {
	var posts atomic.Int32
	url, address := serve(t, func(http.ResponseWriter, *http.Request) { posts.Add(1) })
	slack := channel.NewSlack(channel.SlackOptions{
		API: url, Tokens: secrets(t, "acme", "xoxb-1"), URLs: secrets(t, "acme", url+"/services/T0/B0/x"), Origins: []string{url},
		Poster: poster(t, time.Second, address),
	})
	m := channel.Message{Organization: "acme", Text: "for you alone", Target: channel.Target{SlackChannel: "U0123ABC"}}
	work, err := slack.Prepare(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(work.Body, &fields); err != nil {
		t.Fatal(err)
	}
	for _, added := range []string{"place", "blocks"} {
		delete(fields, added)
	}
	known, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	o := slack.Deliver(t.Context(), channel.Task{Channel: channel.Slack, Organization: "acme", Work: known, Number: 1})
	if o != channel.Unsent(channel.Retry(channel.ClassMissing, 0, time.Minute)) || posts.Load() != 0 {
		t.Errorf("%+v, and %d posts", o, posts.Load())
	}
}

func TestSlackAppOutcomes(t *testing.T) {
	const canary = "xoxb-canary-token"
	var answer struct {
		status     int
		body, wait string
	}
	url, address := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if answer.wait != "" {
			w.Header().Set("Retry-After", answer.wait)
		}
		w.WriteHeader(answer.status)
		_, _ = io.WriteString(w, answer.body)
	})
	slack := channel.NewSlack(channel.SlackOptions{API: url, Tokens: secrets(t, "acme", canary), Poster: poster(t, time.Second, address)})
	work, err := slack.Prepare(t.Context(), channel.Message{Organization: "acme", Text: "x", Target: channel.Target{SlackChannel: "C0123ABC"}})
	if err != nil {
		t.Fatal(err)
	}
	waits := func(o channel.Outcome) channel.Outcome { o.After = time.Minute; return o }
	tests := map[string]struct {
		status     int
		body, wait string
		want       channel.Outcome
	}{
		"posted":              {200, `{"ok":true,"channel":"C0123ABC","ts":"1.2"}`, "", channel.Outcome{Kind: channel.OK, Status: 200, Reference: "C0123ABC:1.2"}},
		"posted to a person":  {200, `{"ok":true,"channel":"W012A3CDE","ts":"1.2"}`, "", channel.Outcome{Kind: channel.OK, Status: 200, Reference: "W012A3CDE:1.2"}},
		"an odd place":        {200, `{"ok":true,"channel":"C0123ABC:9.9","ts":"1.2\n"}`, "", channel.Delivered(200)},
		"too fast":            {429, `{"ok":false,"error":"ratelimited"}`, "30", channel.Retry(channel.ClassRate, 429, 30*time.Second)},
		"too fast, with 200":  {200, `{"ok":false,"error":"ratelimited"}`, "7", channel.Retry(channel.ClassRate, 200, 7*time.Second)},
		"no such channel":     {200, `{"ok":false,"error":"channel_not_found"}`, "", channel.Failed("channel_not_found", 200, "")},
		"not invited":         {200, `{"ok":false,"error":"not_in_channel"}`, "", channel.Failed("not_in_channel", 200, "")},
		"the message is gone": {200, `{"ok":false,"error":"message_not_found"}`, "", channel.Failed("message_not_found", 200, "")},
		"a wrong token":       {200, `{"ok":false,"error":"invalid_auth"}`, "", waits(channel.Denied("invalid_auth", 200, false))},
		"a revoked token":     {200, `{"ok":false,"error":"token_revoked"}`, "", waits(channel.Denied("token_revoked", 200, false))},
		"away":                {200, `{"ok":false,"error":"service_unavailable"}`, "", channel.Retry("service_unavailable", 200, 0)},
		"half done":           {200, `{"ok":false,"error":"fatal_error"}`, "", channel.Outcome{Kind: channel.Unknown, Class: "fatal_error", Status: 200}},
		"an unknown error":    {200, `{"ok":false,"error":"new_error ` + canary + `"}`, "", channel.Failed("slack_refused", 200, "new_error [redacted]")},
		"not Slack":           {200, "<html>", "", channel.Outcome{Kind: channel.Unknown, Class: channel.ClassResponse, Status: 200}},
		"neither":             {200, `{"ok":false}`, "", channel.Outcome{Kind: channel.Unknown, Class: channel.ClassResponse, Status: 200}},
		"an error of a proxy": {503, "", "", channel.Outcome{Kind: channel.RetryAfter, Class: channel.ClassServer, Status: 503}},
		"a redirect":          {302, "", "", channel.Failed(channel.ClassRedirect, 302, "")},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			answer.status, answer.body, answer.wait = tt.status, tt.body, tt.wait
			if got := slack.Deliver(t.Context(), channel.Task{Organization: "acme", Work: work.Body}); got != tt.want {
				t.Errorf("outcome %+v, want %+v", got, tt.want)
			}
		})
	}
	if got := slack.Deliver(t.Context(), channel.Task{Organization: "other", Work: work.Body}); got != channel.Unsent(channel.Retry(channel.ClassMissing, 0, time.Minute)) {
		t.Errorf("without a token: %+v", got)
	}
}

// Blocks hold the whole text in order, none of them more than Slack takes, and no escape is split.
func FuzzSlackBlocks(f *testing.F) {
	f.Add("subject", strings.Repeat("&<>", 300), "Open")
	f.Add("", strings.Repeat("ä", 2998)+"&&&", "x")
	slack := channel.NewSlack(channel.SlackOptions{})
	f.Fuzz(func(t *testing.T, subject, text, label string) {
		work, err := slack.Prepare(t.Context(), channel.Message{
			Subject: subject, Text: text, Actions: []inbox.Action{{ID: "a", Label: label}},
			Target: channel.Target{WebhookURL: "https://hooks.slack.com/services/x"},
		})
		if err != nil {
			t.Fatal(err)
		}
		var got struct {
			Text   string
			Blocks []struct {
				Type     string
				Text     struct{ Text string }
				Elements []json.RawMessage
			}
		}
		if err := json.Unmarshal(work.Body, &got); err != nil {
			t.Fatal(err)
		}
		last := len(got.Blocks) - 1
		if last < 0 || last > 6 || got.Blocks[last].Type != "actions" || len(got.Blocks[last].Elements) != 1 {
			t.Fatalf("%d blocks", last+1)
		}
		for _, b := range got.Blocks[:last] {
			rest := strings.NewReplacer("&amp;", "", "&lt;", "", "&gt;", "").Replace(b.Text.Text)
			if n := utf8.RuneCountInString(b.Text.Text); n == 0 || n > 3000 || strings.ContainsAny(rest, "<>&") {
				t.Errorf("a section of %d characters: ...%q", n, b.Text.Text[max(0, len(b.Text.Text)-20):])
			}
		}
	})
}
