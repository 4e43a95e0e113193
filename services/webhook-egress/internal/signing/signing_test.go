package signing_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/signing"
)

const (
	short = "short"
	raw   = "a-secret-of-thirty-two-bytes-...."
)

// encoded is a secret as Standard Webhooks writes them: 24 bytes in base64.
var encoded = "whsec_" + base64.StdEncoding.EncodeToString([]byte("012345678901234567890123"))

func message() signing.Message {
	return signing.Message{ID: "msg-1", At: time.Unix(1700000000, 0), Body: []byte(`{"a":1}`)}
}

// The expected digests follow the contract's formula, written out once more below.
func TestHeaders(t *testing.T) {
	tests := map[string]struct {
		mode    string
		secrets []string
		want    map[string]string
	}{
		"organization": {signing.OrgTimestamp, []string{short}, map[string]string{
			"X-Webhook-Signature": vector(short, "1700000000.", `{"a":1}`), "X-Webhook-Timestamp": "1700000000",
		}},
		"endpoint": {signing.EndpointBody, []string{short}, map[string]string{
			"X-Webhook-Signature": "sha256=" + vector(short, `{"a":1}`),
		}},
		"standard headers beside": {signing.OrgTimestamp, []string{raw}, map[string]string{
			"X-Webhook-Signature": vector(raw, "1700000000.", `{"a":1}`), "X-Webhook-Timestamp": "1700000000",
			"Webhook-Id": "msg-1", "Webhook-Timestamp": "1700000000",
			"Webhook-Signature": "v1," + standard(raw),
		}},
		"overlapping secrets": {signing.OrgTimestamp, []string{short, raw, encoded}, map[string]string{
			"X-Webhook-Signature": vector(short, "1700000000.", `{"a":1}`), "X-Webhook-Timestamp": "1700000000",
			"Webhook-Id": "msg-1", "Webhook-Timestamp": "1700000000",
			"Webhook-Signature": "v1," + standard(raw) + " v1," + standard("012345678901234567890123"),
		}},
		"malformed base64 is no standard secret": {signing.EndpointBody, []string{"whsec_%%%%"}, map[string]string{
			"X-Webhook-Signature": "sha256=" + vector("whsec_%%%%", `{"a":1}`),
		}},
		"too long for the standard": {signing.EndpointBody, []string{strings.Repeat("k", 65)}, map[string]string{
			"X-Webhook-Signature": "sha256=" + vector(strings.Repeat("k", 65), `{"a":1}`),
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var secrets []secret.Value
			for _, s := range tt.secrets {
				secrets = append(secrets, secret.New(s))
			}
			if diff := cmp.Diff(tt.want, signing.Signer{Mode: tt.mode, Secrets: secrets}.Headers(message())); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
		})
	}
}

// A digest that no code of ours made.
func TestKnownDigest(t *testing.T) {
	got := signing.Signer{Mode: signing.EndpointBody, Secrets: []secret.Value{secret.New("Jefe")}}.Headers(
		signing.Message{Body: []byte("what do ya want for nothing?")})
	const want = "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843" // RFC 4231, 4.3
	if got["X-Webhook-Signature"] != want {
		t.Errorf("signature = %s, want %s", got["X-Webhook-Signature"], want)
	}
}

func vector(key string, parts ...string) string { return fmt.Sprintf("%x", mac(key, parts...)) }

func standard(key string) string {
	return base64.StdEncoding.EncodeToString(mac(key, "msg-1.1700000000.", `{"a":1}`))
}

func mac(key string, parts ...string) []byte {
	h := hmac.New(sha256.New, []byte(key))
	for _, p := range parts {
		h.Write([]byte(p))
	}
	return h.Sum(nil)
}

func reveal(values []secret.Value) []string {
	var texts []string
	for _, v := range values {
		texts = append(texts, v.Reveal())
	}
	return texts
}

func TestDirectory(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	fallback := filepath.Join(outside, "default")
	testkit.WriteFile(t, filepath.Join(dir, "acme"), "new\nold\n")
	testkit.WriteFile(t, filepath.Join(dir, "a%2Fb"), "slashed\n")
	testkit.WriteFile(t, filepath.Join(dir, "%2E."), "dots\n")
	testkit.WriteFile(t, filepath.Join(dir, "empty"), "\n")
	testkit.WriteFile(t, fallback, "fallback\n")
	d := signing.NewDirectory(dir, secret.File(fallback), testkit.Logger(t), time.Now)
	for organization, want := range map[string][]string{
		"acme":  {"new", "old"},
		"a/b":   {"slashed"},
		"..":    {"dots"},
		"other": {"fallback"},
		"":      {"fallback"},
		"empty": nil, // broken: better not sent than signed with another secret
		"../" + filepath.Base(outside) + "/default": {"fallback"},
		strings.Repeat("é", 128):                    {"fallback"}, // no file can have its name
	} {
		if diff := cmp.Diff(want, reveal(d.Of(t.Context(), organization))); diff != "" {
			t.Errorf("%q (-want +got):\n%s", organization, diff)
		}
	}
}

func TestFileNameStaysInside(t *testing.T) {
	for _, organization := range []string{".", "..", "../x", "/etc/passwd", "a/../../b", "..%2f", "\x00", `..\x`, ".hidden"} {
		name := signing.FileName(organization)
		if name != filepath.Base(name) || strings.HasPrefix(name, ".") || strings.ContainsAny(name, "/\\\x00") {
			t.Errorf("%q became %q", organization, name)
		}
	}
}

func TestRotationTakesEffect(t *testing.T) {
	dir := t.TempDir()
	at := time.Unix(0, 0)
	d := signing.NewDirectory(dir, "", testkit.Logger(t), func() time.Time { return at })
	check := func(after time.Duration, want ...string) {
		t.Helper()
		at = at.Add(after)
		if diff := cmp.Diff(want, reveal(d.Of(t.Context(), "acme"))); diff != "" {
			t.Errorf("after %v (-want +got):\n%s", after, diff)
		}
	}
	check(0)
	testkit.WriteFile(t, filepath.Join(dir, "acme"), "one")
	check(999 * time.Millisecond)
	check(time.Millisecond, "one")
	testkit.WriteFile(t, filepath.Join(dir, "acme"), "two\none")
	check(4*time.Second, "one")
	check(time.Second, "two", "one")
}

func TestDirectoryLogsNoSecret(t *testing.T) {
	const canary = "canary-9f27a1"
	dir := t.TempDir()
	testkit.WriteFile(t, filepath.Join(dir, "acme"), strings.Repeat(canary, 1<<17)) // over what a secret file may hold
	var log bytes.Buffer
	d := signing.NewDirectory(dir, "", slog.New(slog.NewTextHandler(&log, nil)), time.Now)
	if got := d.Of(t.Context(), "acme"); got != nil {
		t.Errorf("%d secrets", len(got))
	}
	if log.Len() == 0 {
		t.Error("nothing was logged")
	}
	testkit.NoLeak(t, canary, log.String())
}
