package slack

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// posts keeps what is posted, and answers with a status; 0 fails.
type posts struct {
	mu     sync.Mutex
	got    []string
	status int
	waits  bool
}

func (p *posts) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.got = append(p.got, r.Method+" "+r.URL.String()+" "+string(body))
	if p.waits {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	if p.status == 0 {
		return nil, errors.New("refused")
	}
	return &http.Response{StatusCode: p.status, Body: io.NopCloser(strings.NewReader("ok"))}, nil
}

const address = "https://hooks.slack.com/actions/T01/1/canary"

func TestResponder(t *testing.T) {
	for name, tt := range map[string]struct {
		posts *posts
		log   string
	}{
		"taken":     {&posts{status: 200}, ""},
		"refused":   {&posts{status: 404}, "Slack answered 404"},
		"away":      {&posts{}, "refused"},
		"no answer": {&posts{waits: true}, "deadline exceeded"},
		"moved":     {&posts{status: 302}, "Slack answered 302"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				r := NewResponder(tt.posts, slog.New(slog.NewTextHandler(&log, nil)))
				ctx, stop := context.WithTimeout(t.Context(), time.Minute)
				defer stop()
				if !r.Answer(Interaction{ResponseURL: address}, "no") {
					t.Error("the answer was not queued")
				}
				if err := r.Run(ctx); err != nil {
					t.Error(err)
				}
				want := "POST " + address + ` {"replace_original":false,"response_type":"ephemeral","text":"no"}`
				if len(tt.posts.got) != 1 || tt.posts.got[0] != want {
					t.Errorf("posted %q, want %q", tt.posts.got, want)
				}
				if !strings.Contains(log.String(), tt.log) || strings.Contains(log.String(), "canary") || (tt.log == "") != (log.Len() == 0) {
					t.Errorf("log %q, want %q", log.String(), tt.log)
				}
			})
		})
	}
}

func TestResponderIsBounded(t *testing.T) {
	r := NewResponder(&posts{}, slog.New(slog.DiscardHandler))
	taken := 0
	for range 10 * queued {
		if r.Answer(Interaction{ResponseURL: address}, "no") {
			taken++
		}
	}
	if taken != queued {
		t.Errorf("%d answers wait, want %d", taken, queued)
	}
}

func TestMayAnswer(t *testing.T) {
	for text, want := range map[string]bool{
		address: true, "https://hooks.slack-gov.com/actions/x": true,
		"": false, "http://hooks.slack.com/x": false, "https://hooks.slack.com:8443/x": false, "https://hooks.slack.com.evil.example/x": false,
		"https://evil.example/hooks.slack.com": false, "https://u@hooks.slack.com/x": false, "https://hooks.slack.com@evil.example/x": false,
		"https:hooks.slack.com": false, "//hooks.slack.com/x": false, "https://169.254.169.254/": false, "https://HOOKS.slack.com/x": false,
		address + "#x": false, address + strings.Repeat("x", 3000): false, "https://hooks.slack.com\\@evil.example/": false,
	} {
		if got := mayAnswer(text); got != want {
			t.Errorf("%q: %t, want %t", text, got, want)
		}
	}
}
