package slack_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"switchyard.dev/services/edge/internal/slack"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/platform/testkit/growth"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const oldSecret, newSecret = "8f742231b10e8888abcd99yyyzzz85a5", "0f742231b10e8888abcd99yyyzzz85a6"

// signed returns the headers of a request, signed as Slack's documentation says.
func signed(key, body string, at time.Time) http.Header {
	mac := hmac.New(sha256.New, []byte(key))
	_, _ = fmt.Fprintf(mac, "v0:%d:%s", at.Unix(), body)
	return http.Header{
		slack.HeaderSignature: {"v0=" + hex.EncodeToString(mac.Sum(nil))}, slack.HeaderTimestamp: {fmt.Sprint(at.Unix())},
	}
}

// The example of Slack's documentation, "Verifying requests from Slack".
func TestVerifyTheDocumentedExample(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secret")
	testkit.WriteFile(t, file, oldSecret)
	v, err := slack.NewVerifier(secret.File(file))
	if err != nil {
		t.Fatal(err)
	}
	const body = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&" +
		"user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&" +
		"trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
	h := http.Header{
		slack.HeaderTimestamp: {"1531420618"}, slack.HeaderSignature: {"v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"},
	}
	if err := v.Verify(h, []byte(body), time.Unix(1531420618, 0)); err != nil {
		t.Error(err)
	}
}

func TestVerify(t *testing.T) {
	file := filepath.Join(t.TempDir(), "secrets")
	testkit.WriteFile(t, file, oldSecret+"\n"+newSecret+"\n")
	v, err := slack.NewVerifier(secret.File(file))
	if err != nil {
		t.Fatal(err)
	}
	now, body := time.Unix(1_800_000_000, 0), "payload=%7B%7D"
	for name, tt := range map[string]struct {
		header http.Header
		body   string
		want   bool
	}{
		"the old secret":       {signed(oldSecret, body, now), body, true},
		"the new secret":       {signed(newSecret, body, now), body, true},
		"five minutes old":     {signed(oldSecret, body, now.Add(-5*time.Minute)), body, true},
		"301 seconds old":      {signed(oldSecret, body, now.Add(-301*time.Second)), body, false},
		"301 seconds ahead":    {signed(oldSecret, body, now.Add(301*time.Second)), body, false},
		"another secret":       {signed("another secret of 16", body, now), body, false},
		"an empty secret":      {signed("", body, now), body, false},
		"another body":         {signed(oldSecret, body, now), body + "&a=b", false},
		"encoded again":        {signed(oldSecret, body, now), "payload={}", false},
		"no headers":           {http.Header{}, body, false},
		"no version":           {with(signed(oldSecret, body, now), slack.HeaderSignature, strings.Repeat("0", 64)), body, false},
		"another version":      {with(signed(oldSecret, body, now), slack.HeaderSignature, "v1="+strings.Repeat("0", 64)), body, false},
		"no digits":            {with(signed(oldSecret, body, now), slack.HeaderSignature, "v0="+strings.Repeat("x", 64)), body, false},
		"a short signature":    {with(signed(oldSecret, body, now), slack.HeaderSignature, "v0=00"), body, false},
		"an empty signature":   {with(signed(oldSecret, body, now), slack.HeaderSignature, "v0="), body, false},
		"two signatures":       {with(signed(oldSecret, body, now), slack.HeaderSignature, "v0=00", "v0=01"), body, false},
		"no number":            {with(signed(oldSecret, body, now), slack.HeaderTimestamp, "now"), body, false},
		"a number below zero":  {with(signed(oldSecret, body, now), slack.HeaderTimestamp, "-1800000000"), body, false},
		"the number otherwise": {with(signed(oldSecret, body, now), slack.HeaderTimestamp, "01800000000"), body, false},
		"a long number":        {with(signed(oldSecret, body, now), slack.HeaderTimestamp, strings.Repeat("9", 30)), body, false},
	} {
		if err := v.Verify(tt.header, []byte(tt.body), now); (err == nil) != tt.want || err != nil && !errors.Is(err, slack.ErrSignature) {
			t.Errorf("%s: %v, want good = %t", name, err, tt.want)
		}
	}
}

func with(h http.Header, name string, values ...string) http.Header {
	h[name] = values
	return h
}

func TestVerifierOfFiles(t *testing.T) {
	for text, want := range map[string]bool{
		oldSecret: true, oldSecret + "\n" + newSecret: true, "\n" + oldSecret + "\n\n": true,
		"short": false, oldSecret + "\nshort": false, oldSecret + "\n" + newSecret + "\n" + newSecret: false,
	} {
		file := filepath.Join(t.TempDir(), "secrets")
		testkit.WriteFile(t, file, text)
		if _, err := slack.NewVerifier(secret.File(file)); (err == nil) != want || err != nil && strings.Contains(err.Error(), oldSecret) {
			t.Errorf("%q: %v, want good = %t", text, err, want)
		}
	}
	if _, err := slack.NewVerifier(secret.File(filepath.Join(t.TempDir(), "none"))); err == nil {
		t.Error("a file that is not there was taken")
	}
}

const aClick = `{"type":"block_actions","api_app_id":"A01","team":{"id":"T01","domain":"acme"},"user":{"id":"U01","team_id":"T02","name":"ann"},` +
	`"response_url":"https://hooks.slack.com/actions/T01/1/x","actions":[{"action_id":"approve","block_id":"b","value":"ntc_1","type":"button"}]}`

func body(text string) string { return "payload=" + url.QueryEscape(text) }

func TestParse(t *testing.T) {
	want := slack.Interaction{
		Type: "block_actions", App: "A01", Team: "T01", User: "U01", UserTeam: "T02", ResponseURL: "https://hooks.slack.com/actions/T01/1/x",
		Action: "approve", Value: "ntc_1",
	}
	got, err := slack.Parse([]byte(body(aClick)))
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	got, err = slack.Parse([]byte(body(strings.Replace(aClick, `"team_id":"T02",`, "", 1))))
	if err != nil || got.UserTeam != "T01" {
		t.Errorf("a user without a workspace is of %q, %v", got.UserTeam, err)
	}
	orgWide := strings.NewReplacer(`"team":{"id":"T01","domain":"acme"}`, `"is_enterprise_install":true,"enterprise":{"id":"E01"},"team":null`, "U01", "W012A3CDE")
	if got, err = slack.Parse([]byte(body(orgWide.Replace(aClick)))); err != nil || got.Team != "T02" || got.UserTeam != "T02" || got.User != "W012A3CDE" {
		t.Errorf("with an app of the whole organization: %+v, %v", got, err)
	}
	if got, err := slack.Parse([]byte(body(`{"type":"view_submission","api_app_id":"A01"}`))); err != nil || got.Type != "view_submission" || got.Value != "" {
		t.Errorf("another interaction is %+v, %v", got, err)
	}
	for name, text := range map[string]string{
		"nothing":            "",
		"no field":           url.QueryEscape(aClick),
		"another field":      "a=b&" + body(aClick),
		"a second field":     body(aClick) + "&a=b",
		"a second payload":   body(aClick) + ";payload=x",
		"a broken escape":    "payload=%7",
		"no JSON":            body("click"),
		"half of it":         body(aClick[:100]),
		"a list":             body("[" + aClick + "]"),
		"null":               body("null"),
		"no type":            body("{}"),
		"a number as a type": body(`{"type":1}`),
		"no team":            body(strings.Replace(aClick, `"team"`, `"taem"`, 1)),
		"null for a team":    body(strings.Replace(aClick, `{"id":"T01","domain":"acme"}`, "null", 1)),
		"a team that is no":  body(strings.Replace(aClick, `{"id":"T01"`, `{"id":"t01"`, 1)),
		"no user":            body(strings.Replace(aClick, `"user"`, `"usre"`, 1)),
		"no app":             body(strings.Replace(aClick, "A01", "", 1)),
		"no action":          body(strings.Replace(aClick, `"actions"`, `"axtions"`, 1)),
		"many actions":       body(strings.Replace(aClick, `"actions":[`, `"actions":[`+strings.Repeat(`{"action_id":"a"},`, 25), 1)),
		"another value":      body(strings.Replace(aClick, "ntc_1", "../admin", 1)),
		"a long value":       body(strings.Replace(aClick, "ntc_1", strings.Repeat("x", 129), 1)),
		"a deep value":       body(strings.Replace(aClick, `"value":"ntc_1"`, `"value":`+strings.Repeat("[", 20000)+strings.Repeat("]", 20000), 1)),
		"a long body":        body(aClick + strings.Repeat(" ", slack.MaxBody)),
	} {
		if got, err := slack.Parse([]byte(text)); !errors.Is(err, slack.ErrForm) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(body(aClick))
	f.Add("payload={}")
	f.Fuzz(func(t *testing.T, text string) {
		i, err := slack.Parse([]byte(text))
		if err == nil && i.Type == slack.BlockActions && (i.App == "" || i.Team == "" || i.User == "" || i.UserTeam == "" || strings.ContainsAny(i.Value, "/.%\x00")) {
			t.Errorf("%q is %+v", text, i)
		}
	})
}

func TestParseGrowsLinearly(t *testing.T) {
	inputs := append(growth.Around("payload=", growth.Text, ""), growth.Around(`payload={"type":"block_actions","actions":`, growth.JSON, "}")...)
	growth.Linear(t, growth.EachText(inputs, func(text string) { _, _ = slack.Parse([]byte(text)) })...)
}
