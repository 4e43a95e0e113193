package demo

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func digest(secret, timestamp, body string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(timestamp + "." + body))
	return hex.EncodeToString(mac.Sum(nil))
}

func TestTheDemoShowsWhatCameBack(t *testing.T) {
	f := newFakeStack(t)
	out, err := f.transcript()
	if err != nil {
		t.Fatalf("the demo failed: %v\n%s", err, out)
	}
	for _, want := range []string{
		"│ A board.", "provider sandbox, 9 tokens in, 3 out, 0.01 cents, reported by the provider",
		`"A board "`, `"that connects."`, "2 deltas", "finish_reason stop",
		"queued → delivered", "attempt 1", "retry, answer no answer timeout in 1000.5 ms", "delivered, answer 200 in 3.2 ms",
		"X-Webhook-Signature: ", "the signature holds",
		"Your order is paid", "1, before it was 0", "in_app, slack, email, webhook", "delivered after 2 attempts",
		"payments with 12 tools", "ann has a link: Approval needed: payments/pay", "approved by ann via user_token", "paid 500 to bert-",
		"rule large payments, decided by ann, done after 1 attempt", "tool mcp/payments/pay, completed, 0.5 cents",
		"llm_requests         +2 total 42", "deliveries           +1", "notifications_sent   +1", "tool_requests        +1",
		"everything came back right",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the output lacks %q", want)
		}
	}
	if t.Failed() {
		t.Log(out)
	}
	if p := f.payments; !p.registered || !p.trusted || !p.reviewed || !p.removed || len(p.groups) != 1 {
		t.Errorf("the tool server: %+v", p)
	}
	for _, secret := range []string{decisionToken, f.env.AIKey, f.env.ServiceToken, f.env.OperatorToken, f.env.WebhookSecret} {
		if strings.Contains(out, secret) {
			t.Error("the output holds a secret")
		}
	}
}

func TestTheDemoFailsWhenSomethingIsWrong(t *testing.T) {
	tests := []struct {
		name   string
		change func(*fakeStack)
		wants  string
	}{
		{"a key is refused", func(f *fakeStack) { f.env.AIKey += "x" }, "answered 401"},
		{"the stream fails", func(f *fakeStack) {
			f.stream = "data: {\"content\":\"A\"}\n\nevent: error\ndata: {\"error\":\"all_providers_failed\"}\n\n"
		}, "all_providers_failed"},
		{"the stream is cut off", func(f *fakeStack) { f.stream = strings.TrimSuffix(validStream, "data: [DONE]\n\n") }, "without [DONE]"},
		{"the signature is another's", func(f *fakeStack) { f.signature = digest("another", "1", "x") }, "doesn't match"},
		{"the delivery fails", func(f *fakeStack) { f.status = "failed" }, "ended as failed"},
		{"a channel fails", func(f *fakeStack) { f.slack = "no_service" }, "slack ended as failed: no_service"},
		{"a call is not held", func(f *fakeStack) { f.payments.unheld = true }, "the call was not held"},
		{"a call is refused", func(f *fakeStack) { f.payments.refused = true }, "the call is refused: the definition changed"},
		{"the call has changed", func(f *fakeStack) { f.payments.stale = true }, "decide: answered 409"},
		{"a call is made twice", func(f *fakeStack) { f.payments.twice = true }, "not made exactly once"},
		{"a call is not billed", func(f *fakeStack) { f.payments.unbilled = true }, "the call's row of the ledger: not within"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFakeStack(t)
			good := f.env.AIKey
			tt.change(f)
			state := f.state()
			f.env.AIKey = good
			var out strings.Builder
			err := Run(t.Context(), &Screen{out: &out}, state)
			if !errors.Is(err, errNotRight) {
				t.Errorf("error %v, want %v", err, errNotRight)
			}
			if !strings.Contains(out.String(), tt.wants) {
				t.Errorf("the output lacks %q:\n%s", tt.wants, out.String())
			}
		})
	}
}

// What the organization has of the walk stays as it is.
func TestTheDemoKeepsWhatIsThere(t *testing.T) {
	f := newFakeStack(t)
	f.payments.known = true
	f.payments.groups = []json.RawMessage{json.RawMessage(`{"name":"default"}`), json.RawMessage(`{"name":"finance"}`)}
	out, err := f.transcript()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if p := f.payments; p.registered || p.trusted || p.reviewed || p.removed || len(p.groups) != 2 {
		t.Errorf("changed: %+v", p)
	}
}

func TestTheDemoWithoutAStack(t *testing.T) {
	t.Run("never started", func(t *testing.T) {
		err := Run(t.Context(), &Screen{out: &strings.Builder{}}, t.TempDir())
		if err == nil || !strings.Contains(err.Error(), "make run") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("stopped", func(t *testing.T) {
		f := newFakeStack(t)
		f.env.EdgeURL = "http://127.0.0.1:1"
		_, err := f.transcript()
		if err == nil || !strings.Contains(err.Error(), "make run") || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want one line that says what to do", err)
		}
	})
}

func TestCounted(t *testing.T) {
	before := counters{"a": 5}
	expected := map[string]int64{"a": 2, "b": 1}
	tests := []struct {
		name string
		now  counters
		want bool
	}{
		{"exactly", counters{"a": 7, "b": 1}, true},
		{"others called too", counters{"a": 9, "b": 3}, true},
		{"one is missing", counters{"a": 7}, false},
		{"not all yet", counters{"a": 6, "b": 1}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := counted(before, tt.now, expected); got != tt.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestVerify(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	const secret, body = "whsec_c2VjcmV0", `{"order":"A-1"}`
	good := func() http.Header {
		f := http.Header{}
		f.Set("X-Webhook-Timestamp", "1700000000")
		f.Set("X-Webhook-Signature", digest(secret, "1700000000", body))
		return f
	}
	tests := []struct {
		name   string
		change func(http.Header)
		body   string
		now    time.Time
		wants  string
	}{
		{"as sent", func(http.Header) {}, body, now, ""},
		{"four minutes later", func(http.Header) {}, body, now.Add(4 * time.Minute), ""},
		{"another body", func(http.Header) {}, `{"order":"A-2"}`, now, "doesn't match"},
		{"another time", func(f http.Header) { f.Set("X-Webhook-Timestamp", "1700000001") }, body, now, "doesn't match"},
		{"sent again much later", func(http.Header) {}, body, now.Add(time.Hour), "old"},
		{"no signature", func(f http.Header) { f.Del("X-Webhook-Signature") }, body, now, "doesn't match"},
		{"no digest", func(f http.Header) { f.Set("X-Webhook-Signature", "xyz") }, body, now, "hex"},
		{"no timestamp", func(f http.Header) { f.Del("X-Webhook-Timestamp") }, body, now, "X-Webhook-Timestamp"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			headers := good()
			tt.change(headers)
			err := verify(secret, headers, tt.body, tt.now)
			switch {
			case tt.wants == "" && err != nil:
				t.Error(err)
			case tt.wants != "" && (err == nil || !strings.Contains(err.Error(), tt.wants)):
				t.Errorf("got %v, want %q", err, tt.wants)
			}
		})
	}
}

func TestColourOnlyOnATerminal(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	terminal, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0) // a character device, as a terminal is
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = terminal.Close() })
	tests := []struct {
		name string
		out  *os.File
		env  map[string]string
		want bool
	}{
		{"a terminal", terminal, map[string]string{"TERM": "xterm"}, true},
		{"a terminal, but NO_COLOR", terminal, map[string]string{"NO_COLOR": "1"}, false},
		{"a dumb terminal", terminal, map[string]string{"TERM": "dumb"}, false},
		{"a file", file, nil, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := NewScreen(tt.out, func(name string) string { return tt.env[name] })
			if s.colour != tt.want {
				t.Errorf("colour %t, want %t", s.colour, tt.want)
			}
			if got := strings.Contains(s.Strong("x"), "\x1b["); got != tt.want {
				t.Errorf("codes %t, want %t", got, tt.want)
			}
		})
	}
}

func TestSpan(t *testing.T) {
	tests := map[time.Duration]string{
		1234567 * time.Nanosecond: "1.23ms",
		45678 * time.Microsecond:  "46ms",
		2345 * time.Millisecond:   "2.35s",
	}
	for d, want := range tests {
		if got := span(d); got != want {
			t.Errorf("span(%v) = %s, want %s", d, got, want)
		}
	}
}
