package webhook

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/deploy/fakes/fakestest"
	"switchyard.dev/deploy/fakes/fault"
)

func sign(secret, signed string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(signed))
	return hex.EncodeToString(mac.Sum(nil))
}

func of(secrets ...string) Secrets { return Secrets{Organization: secrets} }

func ofEndpoint(secrets ...string) Secrets { return Secrets{Endpoint: secrets} }

func TestVerify(t *testing.T) {
	// Computed with: printf '1700000000.{"a":1}' | openssl dgst -sha256 -hmac topsecret
	const known = "6a939b0c71853d606167625a15168ee9188c6a511c773ef4f42d307f3849e50f"
	const body = `{"a":1}`
	tests := []struct {
		name      string
		secrets   Secrets
		timestamp string
		signature string
		want      Verdict
	}{
		{"a known vector", of("topsecret"), "1700000000", known, Valid},
		{"timestamp and body", of("s"), "17", sign("s", "17."+body), Valid},
		{"an older secret of two", of("new", "old"), "17", sign("old", "17."+body), Valid},
		{"the body alone", ofEndpoint("s"), "", "sha256=" + sign("s", body), Valid},
		{"the body alone does not cover a timestamp", of("s"), "17", sign("s", body), Invalid},
		{"an older secret of an endpoint", ofEndpoint("new", "old"), "", "sha256=" + sign("old", body), Valid},
		{"an organization's secret for an endpoint", Secrets{[]string{"s"}, []string{"e"}}, "", "sha256=" + sign("s", body), Invalid},
		{"an endpoint's secret for an organization", Secrets{[]string{"s"}, []string{"e"}}, "17", sign("e", "17."+body), Invalid},
		{"no secret of an endpoint", of("s"), "", "sha256=" + sign("s", body), Unchecked},
		{"nothing signed, only an endpoint's secret", ofEndpoint("e"), "", "", Missing},
		{"another timestamp", of("s"), "18", sign("s", "17."+body), Invalid},
		{"another secret", of("s"), "17", sign("other", "17."+body), Invalid},
		{"another body", ofEndpoint("s"), "", "sha256=" + sign("s", body+" "), Invalid},
		{"not hex", of("s"), "17", "zz", Invalid},
		{"no signature", of("s"), "17", "", Missing},
		{"no timestamp", of("s"), "", sign("s", "."+body), Missing},
		{"no secret", Secrets{}, "17", "anything", Unchecked},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			header := http.Header{}
			header.Set("X-Webhook-Timestamp", tt.timestamp)
			header.Set("X-Webhook-Signature", tt.signature)
			if got := Verify(tt.secrets, header, []byte(body)); got != tt.want {
				t.Errorf("Verify = %s, want %s", got, tt.want)
			}
		})
	}
}

func TestArrivals(t *testing.T) {
	var log bytes.Buffer
	srv := New(fault.Script{}, Options{Secrets: of("s"), Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err := srv.Append(fault.Script{Rules: []fault.Rule{{Match: fault.Match{Path: "/b"}, Times: 1, Action: fault.Action{Status: 503}}}}); err != nil {
		t.Fatal(err)
	}
	body := `{"n": 12345678901234567890, "e":"\u00e9 <&>"}`
	signed := map[string]string{
		"X-Webhook-Id": "d1", "X-Webhook-Event": "order.paid", "X-Webhook-Attempt": "2", "X-Webhook-Timestamp": "17",
		"X-Webhook-Signature": sign("s", "17."+body), "Authorization": "Basic s3cret",
	}
	if got := fakestest.Send(t, srv, "POST", "/a//b/../c?x=1", body, signed); got.Code != 200 {
		t.Errorf("status %d, want 200 on any path", got.Code)
	}
	if got := fakestest.Send(t, srv, "POST", "/b", "\xff\xfe", nil); got.Code != 503 {
		t.Errorf("scripted status %d, want 503", got.Code)
	}
	if got := fakestest.Send(t, srv, "GET", "/b", "", nil); got.Code != 405 {
		t.Errorf("GET: status %d, want 405", got.Code)
	}

	var page struct {
		Arrivals []Arrival `json:"arrivals"`
		Total    int       `json:"total"`
	}
	raw := fakestest.Send(t, srv, "GET", "/_arrivals", "", nil).Body.Bytes()
	if err := json.Unmarshal(raw, &page); err != nil {
		t.Fatal(err)
	}
	if page.Total != 3 || len(page.Arrivals) != 3 {
		t.Fatalf("%d arrivals, total %d; want 3", len(page.Arrivals), page.Total)
	}
	first := page.Arrivals[0]
	if first.Body != body {
		t.Errorf("body %q, want the bytes sent: %q", first.Body, body)
	}
	want := first
	want.Path, want.Query, want.ID, want.Signature, want.Fault = "/a//b/../c", "x=1", "d1", Valid, ""
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("first arrival (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"2"}, first.Headers["X-Webhook-Attempt"]); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	want = page.Arrivals[1]
	want.Fault, want.Signature, want.BodyBase64, want.Body = "503", Missing, []byte("\xff\xfe"), ""
	if diff := cmp.Diff(want, page.Arrivals[1]); diff != "" {
		t.Errorf("the arrival that the script refused (-want +got):\n%s", diff)
	}
	if bytes.Contains(raw, []byte("s3cret")) || strings.Contains(log.String(), "s3cret") {
		t.Error("a credential shows")
	}
	if want := `id=d1 event=order.paid attempt=2 bytes=45 signature=valid fault=""`; !strings.Contains(log.String(), want) {
		t.Errorf("log %q, want a line with %q", log.String(), want)
	}
}

func TestArrivalsAreSelected(t *testing.T) {
	srv := New(fault.Script{}, Options{})
	for _, call := range [][2]string{{"/a", "1"}, {"/a", "2"}, {"/b", "1"}, {"/a", "1"}} {
		fakestest.Send(t, srv, "POST", call[0], "", map[string]string{"X-Webhook-Id": call[1]})
	}
	tests := map[string]string{
		"/_count":                 `{"count":4,"total":4}`,
		"/_count?path=/a":         `{"count":3,"total":4}`,
		"/_count?id=1":            `{"count":3,"total":4}`,
		"/_count?path=/a&id=1":    `{"count":2,"total":4}`,
		"/_count?path=/nothing":   `{"count":0,"total":4}`,
		"/_arrivals?path=/none":   `{"arrivals":[],"total":4}`,
		"/_arrivals?limit=0":      `{"error":"limit: want 1 to 100000"}`,
		"/_arrivals?limit=100001": `{"error":"limit: want 1 to 100000"}`,
	}
	for path, want := range tests {
		if got := strings.TrimSpace(fakestest.Send(t, srv, "GET", path, "", nil).Body.String()); got != want {
			t.Errorf("%s = %s, want %s", path, got, want)
		}
	}
	if got := srv.Arrivals("/a", "", 2); len(got) != 2 || got[0].ID != "2" || got[1].ID != "1" {
		t.Errorf("the last two on /a: %+v", got)
	}
	fakestest.Send(t, srv, "DELETE", "/_arrivals", "", nil)
	if got := srv.Arrivals("", "", 10); len(got) != 0 {
		t.Errorf("after DELETE: %d", len(got))
	}
}

func TestLargeBodiesAreKeptCut(t *testing.T) {
	srv := New(fault.Script{}, Options{})
	if got := fakestest.Send(t, srv, "POST", "/", strings.Repeat("x", maxBody+5), nil); got.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d, want 413", got.Code)
	}
	if a := srv.Arrivals("", "", 1)[0]; !a.Truncated || a.BodyBytes != maxBody || a.Fault != "413" {
		t.Errorf("truncated %v, %d bytes, fault %s", a.Truncated, a.BodyBytes, a.Fault)
	}
}
