package control_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"switchyard.dev/services/edge/internal/approver"
	"switchyard.dev/services/edge/internal/control"
	"switchyard.dev/services/edge/internal/slack"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/platform/testkit/growth"
)

const signingSecret = "8f742231b10e8888abcd99yyyzzz85a5"

// slackWorld is a control with nothing but the interactions of Slack. It keeps clicks and answers.
type slackWorld struct {
	http.Handler

	clicks  []approver.Click
	answers []string
	text    string
	err     error
	waits   bool // until its time is up
	full    bool
	logs    bytes.Buffer
}

func (x *slackWorld) Do(ctx context.Context, click approver.Click) (string, error) {
	x.clicks = append(x.clicks, click)
	if x.waits {
		<-ctx.Done()
		return "", ctx.Err()
	}
	return x.text, x.err
}

func (x *slackWorld) Answer(i slack.Interaction, text string) bool {
	x.answers = append(x.answers, i.ResponseURL+" "+text)
	return !x.full
}

func newSlack(t *testing.T) *slackWorld {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	testkit.WriteFile(t, file, signingSecret)
	verifier, err := slack.NewVerifier(secret.File(file))
	if err != nil {
		t.Fatal(err)
	}
	x := new(slackWorld)
	x.Handler, err = control.New(control.Options{
		Log: slog.New(slog.NewJSONHandler(&x.logs, nil)), Tracer: tracenoop.NewTracerProvider().Tracer(""), Meter: metricnoop.NewMeterProvider().Meter(""),
		Slack: &control.Slack{Verifier: verifier, App: "A01", Clicks: x, Responder: x},
	})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// post posts a body that is signed with a key.
func (x *slackWorld) post(t *testing.T, key, body string) *httptest.ResponseRecorder {
	t.Helper()
	now := fmt.Sprint(time.Now().Unix())
	mac := hmac.New(sha256.New, []byte(key))
	_, _ = fmt.Fprintf(mac, "v0:%s:%s", now, body)
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/slack/interactions", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set(slack.HeaderTimestamp, now)
	r.Header.Set(slack.HeaderSignature, "v0="+hex.EncodeToString(mac.Sum(nil)))
	w := httptest.NewRecorder()
	x.ServeHTTP(w, r)
	return w
}

func interaction(app, action string) string {
	return "payload=" + url.QueryEscape(`{"type":"block_actions","api_app_id":"`+app+`","team":{"id":"T01"},"user":{"id":"U01","team_id":"T02"},`+
		`"response_url":"https://hooks.slack.com/x","actions":[{"action_id":"`+action+`","value":"ntc_1"}]}`)
}

func TestInteractions(t *testing.T) {
	click := approver.Click{User: approver.SlackUser{Team: "T02", User: "U01"}, Team: "T01", Button: "approve", Notice: "ntc_1"}
	for name, tt := range map[string]struct {
		key, body string
		text      string
		err       error
		status    int
		clicks    int
		answer    string
	}{
		"a click":             {signingSecret, interaction("A01", "approve"), "", nil, 200, 1, ""},
		"one without effect":  {signingSecret, interaction("A01", "approve"), "too late", nil, 200, 1, "too late"},
		"one that fails":      {signingSecret, interaction("A01", "approve"), "", errors.New("away"), 200, 1, "not known whether this decided"},
		"a link":              {signingSecret, interaction("A01", "open"), "", nil, 200, 0, ""},
		"another interaction": {signingSecret, "payload=" + url.QueryEscape(`{"type":"shortcut","api_app_id":"A01"}`), "", nil, 200, 0, ""},
		"another app":         {signingSecret, interaction("A02", "approve"), "", nil, 403, 0, ""},
		"another secret":      {"another secret of 16", interaction("A01", "approve"), "", nil, 401, 0, ""},
		"no interaction":      {signingSecret, "payload=canary", "", nil, 400, 0, ""},
		"unsigned and broken": {"another secret of 16", "payload=canary", "", nil, 401, 0, ""},
		"a body of 1 MiB":     {signingSecret, "payload=" + strings.Repeat("x", 1<<20), "", nil, 413, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			x := newSlack(t)
			x.text, x.err = tt.text, tt.err
			w := x.post(t, tt.key, tt.body)
			if w.Code != tt.status || len(x.clicks) != tt.clicks || tt.clicks == 1 && x.clicks[0] != click || w.Code == 200 && w.Body.Len() > 0 {
				t.Errorf("%d %s, clicks %+v; want %d, %d clicks", w.Code, w.Body, x.clicks, tt.status, tt.clicks)
			}
			got := strings.Join(x.answers, "")
			if (got == "") != (tt.answer == "") || !strings.Contains(got, tt.answer) {
				t.Errorf("answer %q, want %q", got, tt.answer)
			}
			if all := w.Body.String() + x.logs.String(); strings.Contains(all, "canary") || strings.Contains(all, "hooks.slack.com") || strings.Contains(all, signingSecret) {
				t.Errorf("the body is repeated: %s", all)
			}
		})
	}
}

// Slack waits for three seconds: a decision that takes longer has an answer that says so.
func TestInteractionsAreAnsweredInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newSlack(t)
		x.waits, x.full = true, true
		start := time.Now()
		if w := x.post(t, signingSecret, interaction("A01", "approve")); w.Code != 200 || time.Since(start) >= 3*time.Second {
			t.Errorf("%d after %s", w.Code, time.Since(start))
		}
		if len(x.answers) != 1 || !strings.Contains(x.logs.String(), "has no answer") {
			t.Errorf("answers %q, log %s", x.answers, x.logs.String())
		}
	})
}

func TestInteractionsGrowLinearly(t *testing.T) {
	x := newSlack(t)
	inputs := append(growth.Around("payload=", growth.Text, ""), growth.Around(`payload={"type":"block_actions","user":`, growth.JSON, "}")...)
	growth.Linear(t, growth.EachText(inputs, func(body string) { x.post(t, signingSecret, body) })...)
}
