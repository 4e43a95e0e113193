package signing_test

import (
	"bytes"
	"encoding/base64"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/signing"
)

// SuitsV1 says what the signer does.
func TestSuitsV1(t *testing.T) {
	inBase64 := func(n int) string {
		return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", n)))
	}
	for text, want := range map[string]bool{
		"": false, strings.Repeat("k", 23): false, strings.Repeat("k", 24): true, strings.Repeat("k", 64): true,
		strings.Repeat("k", 65): false, inBase64(23): false, inBase64(24): true, inBase64(64): true, inBase64(65): false,
		"whsec_" + strings.Repeat("%", 40): false, strings.Repeat("é", 12): true,
	} {
		one := secret.New(text)
		if got := signing.SuitsV1(one); got != want {
			t.Errorf("%q suits: %t, want %t", text, got, want)
		}
		headers := signing.Signer{Mode: signing.EndpointBody, Secrets: []secret.Value{one}}.Headers(message())
		if _, signed := headers[signing.HeaderStandardSignature]; signed != want {
			t.Errorf("%q signs: %t, want %t", text, signed, want)
		}
	}
}

// What doesn't suit v1 is logged with the organization and the rule, once for each change of the file, without secrets.
func TestDirectoryReportsUnsuitableSecrets(t *testing.T) {
	const unsuitable, suitable = "canary-4c1d", "canary-4c1d-of-more-than-24-bytes"
	dir, at := t.TempDir(), time.Unix(0, 0)
	fallback := filepath.Join(t.TempDir(), "default")
	var log bytes.Buffer
	d := signing.NewDirectory(dir, secret.File(fallback), slog.New(slog.NewTextHandler(&log, nil)), func() time.Time { return at })
	read := func(what, organization string, want ...string) {
		t.Helper()
		at = at.Add(time.Hour)
		log.Reset()
		d.Of(t.Context(), organization)
		text := log.String()
		testkit.NoLeak(t, unsuitable, text)
		for _, part := range want {
			if !strings.Contains(text, part) {
				t.Errorf("%s: the log lacks %s: %s", what, part, text)
			}
		}
		if len(want) == 0 && text != "" {
			t.Errorf("%s: logged %s", what, text)
		}
	}
	testkit.WriteFile(t, fallback, unsuitable)
	testkit.WriteFile(t, filepath.Join(dir, "acme"), suitable+"\n"+unsuitable+"\n"+unsuitable+"\n")
	read("at first", "acme", "organization=acme", "secrets=2", "first=2", "24 to 64 bytes")
	read("unchanged", "acme")
	testkit.WriteFile(t, filepath.Join(dir, "acme"), unsuitable)
	read("another one", "acme", "organization=acme", "secrets=1", "first=1")
	testkit.WriteFile(t, filepath.Join(dir, "acme"), suitable)
	read("repaired", "acme")
	testkit.WriteFile(t, filepath.Join(dir, "acme"), unsuitable)
	read("broken again", "acme", "organization=acme")
	read("the default", "other", "default file", "24 to 64 bytes")
	read("the default for a third", "third")
}

// Check logs what is wrong before any delivery, and reads no file that is no organization's.
func TestDirectoryCheck(t *testing.T) {
	const unsuitable = "canary-77ab"
	dir := t.TempDir()
	fallback := filepath.Join(t.TempDir(), "default")
	testkit.WriteFile(t, fallback, unsuitable)
	for _, name := range []string{"acme", "a%2Fb", "..data", "a b", "%zz"} {
		testkit.WriteFile(t, filepath.Join(dir, name), unsuitable)
	}
	testkit.WriteFile(t, filepath.Join(dir, "empty"), "\n")
	check := func(d *signing.Directory, log *bytes.Buffer, want ...string) {
		t.Helper()
		log.Reset()
		d.Check(t.Context())
		testkit.NoLeak(t, unsuitable, log.String())
		if n := strings.Count(log.String(), "\n"); n != len(want) {
			t.Errorf("%d lines, want %d: %s", n, len(want), log)
		}
		for _, part := range want {
			if !strings.Contains(log.String(), part) {
				t.Errorf("the log lacks %s: %s", part, log)
			}
		}
	}
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	check(signing.NewDirectory(dir, secret.File(fallback), logger, time.Now), &log,
		"default file", "organization=acme", "organization=a/b", "organization=empty")
	check(signing.NewDirectory("", "", logger, time.Now), &log)
	check(signing.NewDirectory(filepath.Join(dir, "absent"), "", logger, time.Now), &log, "directory of signing secrets cannot be read")
}
