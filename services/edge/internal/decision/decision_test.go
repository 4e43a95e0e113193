package decision_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/edge/internal/decision"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit/growth"
)

var token = strings.Repeat("ab", 32)

func newNonces(tb testing.TB) *decision.Nonces {
	tb.Helper()
	nonces, err := decision.NewNonces(secret.New(strings.Repeat("p", 32)))
	if err != nil {
		tb.Fatal(err)
	}
	return nonces
}

func TestNonces(t *testing.T) {
	nonces, now := newNonces(t), time.Unix(1_800_000_000, 0)
	good := nonces.Make(token, "v1", now)
	if again := nonces.Make(token, "v1", now); again == good {
		t.Error("two renderings have one nonce")
	}
	other, err := decision.NewNonces(secret.New(strings.Repeat("q", 32)))
	if err != nil {
		t.Fatal(err)
	}
	last := map[bool]string{true: "A", false: "B"}[good[40] == 'B']
	for name, tt := range map[string]struct {
		nonces                *decision.Nonces
		nonce, token, version string
		after                 time.Duration
		want                  bool
	}{
		"at once":               {nonces, good, token, "v1", 0, true},
		"on another replica":    {newNonces(t), good, token, "v1", 0, true},
		"in the last second":    {nonces, good, token, "v1", 15*time.Minute - time.Second, true},
		"too late":              {nonces, good, token, "v1", 15 * time.Minute, false},
		"of another pepper":     {other, good, token, "v1", 0, false},
		"for another token":     {nonces, good, strings.Repeat("cd", 32), "v1", 0, false},
		"for another version":   {nonces, good, token, "v2", 0, false},
		"for parts moved":       {nonces, good, token + "v", "1", 0, false},
		"empty":                 {nonces, "", token, "v1", 0, false},
		"shorter":               {nonces, good[:len(good)-1], token, "v1", 0, false},
		"longer":                {nonces, good + "A", token, "v1", 0, false},
		"changed":               {nonces, good[:40] + last + good[41:], token, "v1", 0, false},
		"a later end, unsigned": {nonces, "__" + good[2:], token, "v1", 0, false},
		"no base64":             {nonces, strings.Repeat("!", len(good)), token, "v1", 0, false},
	} {
		if got := tt.nonces.Check(tt.nonce, tt.token, tt.version, now.Add(tt.after)); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
}

func FuzzNonces(f *testing.F) {
	nonces, now := newNonces(f), time.Unix(1_800_000_000, 0)
	good := nonces.Make(token, "v1", now)
	f.Add(good)
	f.Fuzz(func(t *testing.T, nonce string) {
		if nonces.Check(nonce, token, "v1", now) && nonce != good {
			t.Errorf("%q is taken", nonce)
		}
	})
}

func shown() *decision.Decision {
	server, run, by, unknown := "ci", "run-1", "olga", "apr_0"
	return &decision.Decision{
		Ref: "apr_1", Organization: "acme", Status: "pending", Approver: "ann", Channel: "email", Server: &server, Tool: "deploy",
		Arguments: json.RawMessage(`{"env":"prod","note":"</pre><script>alert(1)</script>"}`), RequestedBy: "agent-3", Run: &run, Version: "v1",
		CreatedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), ExpiresAt: time.Date(2026, 1, 2, 4, 4, 5, 0, time.UTC),
		Call: &decision.Call{
			Definition: "d1", Digest: "c1", Rule: "deployments", Proof: "page", Cents: 12.5, ReviewedBy: &by, Redacted: []string{"email", "api_key"}, UnknownRef: &unknown,
		},
	}
}

func TestCents(t *testing.T) {
	for cents, want := range map[float64]string{0: "0 cents", 0.5: "0.5 cents", 1e-10: "0.0000000001 cents", 1234567: "1234567 cents", 1.1449: "1.1449 cents"} {
		if got := decision.Cents(cents); got != want {
			t.Errorf("%v: %s, want %s", cents, got, want)
		}
	}
}

func render(t *testing.T, v decision.View) (*httptest.ResponseRecorder, string) {
	t.Helper()
	w := httptest.NewRecorder()
	if err := decision.Write(w, 200, v); err != nil {
		t.Fatal(err)
	}
	return w, w.Body.String()
}

// The page has everything that is decided, and nothing of it is markup.
func TestPage(t *testing.T) {
	w, text := render(t, decision.Show(shown(), "nonce-1", "a note"))
	for _, want := range []string{
		"Decide on a call of ci/deploy", "a note", "ann", "acme", "agent-3", "run-1", "12.5 cents", "olga", "d1", "c1", "deployments",
		"2 January 2026, 03:04:05 UTC", "2 January 2026, 04:04:05 UTC", "email, api_key", "approval apr_0", `name="nonce" value="nonce-1"`,
		`name="display_version" value="v1"`, `value="approve"`, `value="deny"`, "&#34;env&#34;: &#34;prod&#34;", "&lt;script&gt;",
		`<meta name="viewport"`, `method="post"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(text, "<script") || strings.Contains(text, "ZgotmplZ") || strings.Contains(text, "http://") || strings.Contains(text, "https://") {
		t.Errorf("the page has a script, or loads something:\n%s", text)
	}
	_, rest, _ := strings.Cut(text, "<style>")
	style, _, _ := strings.Cut(rest, "</style>")
	sum := sha256.Sum256([]byte(style))
	want := "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	for name, value := range map[string]string{
		"Content-Security-Policy": want, "Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Robots-Tag": "noindex, nofollow",
		"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Content-Type": "text/html; charset=utf-8",
	} {
		if got := w.Header().Get(name); got != value {
			t.Errorf("%s: %s, want %s", name, got, value)
		}
	}
}

// A person can't be shown another text than the one that is decided.
func TestPageEscapesWhatIsNotSeen(t *testing.T) {
	d := shown()
	d.Tool, d.Arguments = "de\u202eploy", json.RawMessage("{\"path\":\"/tmp/\u200b\u2066x\"}")
	_, text := render(t, decision.Show(d, "n"))
	for _, want := range []string{`de\u202eploy`, `/tmp/\u200b\u2066x`} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	if strings.ContainsAny(text, "\u202e\u200b\u2066") {
		t.Error("the page has characters that are not seen")
	}
}

func TestPageOfWhatIsDecided(t *testing.T) {
	d, by, at, why := shown(), "bob", time.Date(2026, 1, 2, 3, 30, 0, 0, time.UTC), "not today"
	d.Status, d.DecidedBy, d.DecidedAt, d.Reason = "denied", &by, &at, &why
	_, text := render(t, decision.Show(d, "nonce-1"))
	if !strings.Contains(text, "It is denied by bob at 2 January 2026, 03:30:00 UTC.") || !strings.Contains(text, "not today") || strings.Contains(text, "<form") {
		t.Errorf("the page is\n%s", text)
	}
	d = &decision.Decision{Status: "pending", Tool: "x", Arguments: json.RawMessage("null"), Approver: "ann"} // What a caller asked for.
	if _, text := render(t, decision.Show(d, "n")); strings.Contains(text, "<h2>") || !strings.Contains(text, "Decide on a call of x") {
		t.Errorf("the page without a call is\n%s", text)
	}
}

func TestRate(t *testing.T) {
	rate, now := decision.NewRate(2, 10), time.Unix(1_800_000_000, 0)
	for i := range 10 {
		if wait := rate.Take("a", now); wait != 0 {
			t.Fatalf("call %d waits %s", i, wait)
		}
	}
	if wait := rate.Take("a", now); wait != 500*time.Millisecond {
		t.Errorf("the next one waits %s", wait)
	}
	if rate.Take("a", now.Add(-time.Hour)) == 0 {
		t.Error("a clock that is set back admits more")
	}
	if wait := rate.Take("a", now.Add(500*time.Millisecond)); wait != 0 {
		t.Errorf("half a second later it waits %s", wait)
	}
	free := 0
	for i := range 100 {
		if rate.Take(fmt.Sprint("b", i), now) == 0 {
			free++
		}
	}
	if free < 90 { // Some may share a bucket.
		t.Errorf("%d of 100 others are admitted", free)
	}
}

func TestIsToken(t *testing.T) {
	for text, want := range map[string]bool{
		token: true, "": false, token[1:]: false, token + "a": false, strings.ToUpper(token): false, token[:63] + "/": false, token[:63] + "\n": false,
	} {
		if got := decision.IsToken(text); got != want {
			t.Errorf("%q: %t, want %t", text, got, want)
		}
	}
}

func TestPageGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.EachText(append(growth.Text, growth.JSON...), func(text string) {
		d := shown()
		d.Arguments, d.Tool, d.Description = json.RawMessage(text), text, text
		w := httptest.NewRecorder()
		_ = decision.Write(w, 200, decision.Show(d, "n"))
	})...)
}

func TestNoncesGrowsLinearly(t *testing.T) {
	nonces, now := newNonces(t), time.Unix(1_800_000_000, 0)
	growth.Linear(t, growth.EachText(append(growth.Text, growth.Around(nonces.Make(token, "v1", now), growth.Text, "")...), func(text string) {
		if nonces.Check(text, token, "v1", now) {
			t.Errorf("%.100q is taken", text)
		}
	})...)
}
