package channel_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/platform/testkit"
)

func TestSlackURLs(t *testing.T) {
	slack := channel.NewSlack(channel.SlackOptions{Origins: []string{"http://127.0.0.1:8192"}})
	for url, ok := range map[string]bool{
		"https://hooks.slack.com/services/T1/B1/x":          true,
		"https://hooks.slack-gov.com/services/T1/B1/x":      true,
		"https://hooks.slack.com/workflows/T1/A1/1/x":       true,
		"https://hooks.slack.com/triggers/T1/1/x":           true,
		"http://127.0.0.1:8192/services/T1/B1/x":            true,
		"http://hooks.slack.com/services/T1/B1/x":           false,
		"https://hooks.slack.com:8443/services/x":           false,
		"https://hooks.slack.com/":                          false,
		"https://hooks.slack.com/services/":                 false,
		"https://hooks.slack.com/api/chat.postMessage":      false,
		"https://hooks.slack.com/services/../api/x":         false,
		"https://hooks.slack.com.evil.example/services/x":   false,
		"https://evil.example/services/x":                   false,
		"https://hooks.slack.com@evil.example/services/x":   false,
		"https://u:p@hooks.slack.com/services/x":            false,
		"https://hooks.slack.com/services/x#y":              false,
		"https://hooks.slack.com\\@evil.example/services/x": false,
		"http://127.0.0.1:8193/services/T1/B1/x":            false,
		"//hooks.slack.com/services/x":                      false,
		"::":                                                false,
	} {
		_, err := slack.Prepare(t.Context(), channel.Message{Text: "x", Target: channel.Target{WebhookURL: url}})
		if (err == nil) != ok {
			t.Errorf("%s: %v, want ok %v", url, err, ok)
		}
		if err != nil && (!strings.Contains(err.Error(), "channel slack: target.webhook_url: ") || strings.Contains(err.Error(), "evil")) {
			t.Errorf("%s: the error names no field, or repeats the value: %v", url, err)
		}
	}
}

func TestSlackText(t *testing.T) {
	var got struct {
		Text string `json:"text"`
	}
	url, address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got.Text = ""
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		_, _ = io.WriteString(w, "ok")
	})
	slack := channel.NewSlack(channel.SlackOptions{Origins: []string{url}, Poster: poster(t, time.Second, address)})
	tests := map[string]struct {
		subject, text, want string
		truncated           bool
	}{
		"plain":            {"", "hello", "hello", false},
		"with a subject":   {"Order 7", "shipped", "*Order 7*\nshipped", false},
		"escaped":          {"<a>", "a & b <!channel>", "*&lt;a&gt;*\na &amp; b &lt;!channel&gt;", false},
		"the longest":      {"", strings.Repeat("ä", 40_000), strings.Repeat("ä", 40_000), false},
		"cut":              {"", strings.Repeat("ä", 40_001), strings.Repeat("ä", 39_999) + "…", true},
		"no escape is cut": {"", strings.Repeat("x", 39_997) + "&&", strings.Repeat("x", 39_997) + "…", true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			target := channel.Target{WebhookURL: url + "/services/T/B/x"}
			work, err := slack.Prepare(t.Context(), channel.Message{Subject: tt.subject, Text: tt.text, Target: target})
			if err != nil {
				t.Fatal(err)
			}
			if o := slack.Deliver(t.Context(), channel.Task{Work: work.Body}); o != channel.Delivered(200) {
				t.Fatalf("outcome %+v", o)
			}
			if got.Text != tt.want || work.Truncated != tt.truncated {
				t.Errorf("%d bytes ...%q, truncated %v", len(got.Text), got.Text[max(0, len(got.Text)-20):], work.Truncated)
			}
		})
	}
}

func TestSlackRefusals(t *testing.T) {
	const canary = "canary-slack-credential"
	var answer struct {
		status int
		body   string
	}
	url, address := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(answer.status)
		_, _ = io.WriteString(w, answer.body)
	})
	slack := channel.NewSlack(channel.SlackOptions{Origins: []string{url}, Poster: poster(t, time.Second, address)})
	work, err := slack.Prepare(t.Context(), channel.Message{Text: "x", Target: channel.Target{WebhookURL: url + "/services/T/B/" + canary}})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(work.Lane, canary) || strings.Contains(work.Destination, canary) {
		t.Errorf("the credential is in the clear: %s %s", work.Lane, work.Destination)
	}
	tests := []struct {
		status int
		body   string
		want   channel.Outcome
	}{
		{200, "ok", channel.Delivered(200)},
		{200, `{"ok":true}`, channel.Delivered(200)},
		{200, "<html>", channel.Outcome{Kind: channel.Unknown, Class: channel.ClassResponse, Status: 200}},
		{400, "invalid_payload", channel.Failed("invalid_payload", 400, "")},
		{400, "no_text", channel.Failed("no_text", 400, "")},
		{403, "action_prohibited", channel.Denied("action_prohibited", 403, true)},
		{404, "no_service", channel.Denied("no_service", 404, true)},
		{404, "channel_not_found", channel.Failed("channel_not_found", 404, "")},
		{410, "channel_is_archived", channel.Failed("channel_is_archived", 410, "")},
		{404, "something " + canary, channel.Failed(channel.ClassClient, 404, "")},
		{500, "rollup_error", channel.Retry(channel.ClassServer, 500, 0)},
	}
	for _, tt := range tests {
		answer.status, answer.body = tt.status, tt.body
		if got := slack.Deliver(t.Context(), channel.Task{Work: work.Body}); got != tt.want {
			t.Errorf("%d %s: %+v, want %+v", tt.status, tt.body, got, tt.want)
		}
	}
}

// An organization's own URL lies in a file: it is never in the work, and what is
// sent goes to the one that the file holds then.
func TestSlackURLOfTheOrganization(t *testing.T) {
	const canary = "canarySlackOfTheOrganization"
	var paths []string
	url, address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.URL.Path)
		_, _ = io.WriteString(w, "ok")
	})
	dir := t.TempDir()
	slack := channel.NewSlack(channel.SlackOptions{
		URLs: channel.Directory(dir), Origins: []string{url}, Poster: poster(t, time.Second, address),
	})
	message := channel.Message{ID: uuid.New(), Organization: "a/b", Text: "x"}
	if _, err := slack.Prepare(t.Context(), message); err == nil || !strings.Contains(err.Error(), "target.webhook_url: required") {
		t.Errorf("without a file: %v", err)
	}
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(dir, "a%2Fb"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(url + "/services/T/B/" + canary + "\n")
	work, err := slack.Prepare(t.Context(), message)
	if err != nil {
		t.Fatal(err)
	}
	testkit.NoLeak(t, canary, string(work.Body), work.Lane, work.Destination)
	write(url + "/services/T/B/rotated")
	if o := slack.Deliver(t.Context(), channel.Task{Organization: "a/b", Work: work.Body}); o != channel.Delivered(200) {
		t.Errorf("outcome %+v", o)
	}
	write("https://evil.example/services/x")
	if o := slack.Deliver(t.Context(), channel.Task{Organization: "a/b", Work: work.Body}); o.Class != channel.ClassMissing || o.Kind != channel.RetryAfter {
		t.Errorf("outcome %+v of a file with another host", o)
	}
	if len(paths) != 1 || paths[0] != "/services/T/B/rotated" {
		t.Errorf("posted to %v", paths)
	}
}
