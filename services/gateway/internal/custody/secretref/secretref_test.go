package secretref

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"switchyard.dev/services/platform/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	testkit.WriteFile(t, path, text)
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "acme", "openai.key"), "key-of-acme\n")
	write(t, filepath.Join(dir, "acme", "deep", "er.key"), "deeper\n")
	write(t, filepath.Join(dir, "acme", "..data", "v1"), "mounted")
	write(t, filepath.Join(dir, "acme", "empty"), "\n")
	write(t, filepath.Join(dir, "acme", "large"), strings.Repeat("x", maxSecret+1))
	write(t, filepath.Join(dir, "bolt", "openai.key"), "key-of-bolt")
	write(t, filepath.Join(dir, "outside"), "outside")
	for link, to := range map[string]string{
		"inside": "..data/v1", "escape": "../bolt/openai.key", "absolute": filepath.Join(dir, "outside"), "folder": "../bolt",
	} {
		if err := os.Symlink(to, filepath.Join(dir, "acme", link)); err != nil {
			t.Fatal(err)
		}
	}
	r, err := New(Options{FilesDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		organization, reference, want string
		err                           error
	}{
		{"acme", "file:openai.key", "key-of-acme", nil},
		{"acme", "file:deep/er.key", "deeper", nil},
		{"acme", "file:inside", "mounted", nil}, // As Kubernetes mounts secrets.
		{"acme", "file:" + dir + "/acme/openai.key", "key-of-acme", nil},
		{"acme", "file://" + dir + "/acme/openai.key", "key-of-acme", nil},
		{"acme", "file:absent", "", ErrAbsent},
		{"acme", "file:empty", "", ErrAbsent},
		{"carol", "file:openai.key", "", ErrAbsent},
		{"acme", "file:../bolt/openai.key", "", ErrRefused},
		{"acme", "file:deep/../../bolt/openai.key", "", ErrRefused},
		{"acme", "file:./openai.key", "", ErrRefused},
		{"acme", "file:" + dir + "/bolt/openai.key", "", ErrRefused},
		{"acme", "file:" + dir + "/acme/../bolt/openai.key", "", ErrRefused},
		{"acme", "file:/etc/passwd", "", ErrRefused},
		{"acme", "file:escape", "", ErrRefused},
		{"acme", "file:absolute", "", ErrRefused},
		{"acme", "file:folder/openai.key", "", ErrRefused},
		{"acme", "file:deep", "", ErrRefused},
		{"acme", "file:large", "", ErrRefused},
		{"acme", "file:", "", ErrRefused},
		{"acme", "file:.", "", ErrRefused},
		{"..", "file:acme/openai.key", "", ErrRefused},
		{".", "file:acme/openai.key", "", ErrRefused},
		{"acme/deep", "file:er.key", "", ErrRefused},
		{"", "file:acme/openai.key", "", ErrRefused},
		{"acme", "env:HOME", "", ErrRefused},
		{"acme", "awssecretsmanager://byok/acme/openai", "", ErrRefused},
		{"acme", "http://127.0.0.1/secret", "", ErrRefused},
		{"acme", "constant://?val=x", "", ErrRefused},
		{"acme", "plain", "", ErrRefused},
	} {
		value, err := r.Read(t.Context(), test.organization, test.reference)
		if value.Reveal() != test.want || !errors.Is(err, test.err) {
			t.Errorf("%s of %q: %q, %v, want %q, %v", test.reference, test.organization, value.Reveal(), err, test.want, test.err)
		}
		if err != nil && (strings.Contains(err.Error(), dir) || strings.Contains(err.Error(), "passwd")) {
			t.Errorf("%s: the error tells paths: %v", test.reference, err)
		}
	}
	if off, err := New(Options{}); err != nil {
		t.Error(err)
	} else if _, err := off.Read(t.Context(), "acme", "file:openai.key"); !errors.Is(err, ErrRefused) {
		t.Errorf("switched off: %v", err)
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("BYOK_acme__OPENAI", "key-of-acme")
	t.Setenv("BYOK_acme_x__OPENAI", "key-of-another")
	t.Setenv("BYOK_acme___OPENAI", "key-of-a-third")
	r, err := New(Options{EnvPrefix: "BYOK_{organization}__"})
	if err != nil {
		t.Fatal(err)
	}
	if value, err := r.Read(t.Context(), "acme", "env:BYOK_acme__OPENAI"); err != nil || value.Reveal() != "key-of-acme" {
		t.Errorf("its own: %v", err)
	}
	if _, err := r.Read(t.Context(), "acme", "env:BYOK_acme__ABSENT"); !errors.Is(err, ErrAbsent) {
		t.Errorf("absent: %v", err)
	}
	for _, name := range []string{"HOME", "BYOK_acme_x__OPENAI", "BYOK_acme___OPENAI", "BYOK_bolt__OPENAI", "BYOK_acme__", "byok_acme__OPENAI"} {
		if _, err := r.Read(t.Context(), "acme", "env:"+name); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v, want a refusal", name, err)
		}
	}
}

func TestSettings(t *testing.T) {
	for _, o := range []Options{
		{EnvPrefix: "BYOK_"},
		{EnvPrefix: "BYOK_{organization}"},
		{EnvPrefix: "{organization}x"},
		{Managers: []string{"awssecretsmanager://byok/"}},
		{Managers: []string{"constant://{organization}/"}},
		{Managers: []string{"file:///{organization}/"}},
		{Managers: []string{"http://h/{organization}/"}},
		{Managers: []string{"awssecretsmanager://{organization}/?%zz"}},
		{Managers: []string{""}},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v is allowed", o)
		}
	}
}

// No name belongs to two organizations.
func TestScopesAreApart(t *testing.T) {
	part := rapid.StringMatching(`[a_./-]{1,6}`)
	rapid.Check(t, func(t *rapid.T) {
		s := scope{"p", rapid.SampledFrom([]string{"/", "-", "_", "__", "_-", "//"}).Draw(t, "separator")}
		a, b := part.Draw(t, "a"), part.Draw(t, "b")
		name := s.before + a + s.separator + rapid.StringMatching(`[a_./-]{1,8}`).Draw(t, "last")
		if a != b && s.admits(a, name) && s.admits(b, name) {
			t.Fatalf("%q is of %q and of %q", name, a, b)
		}
	})
}

// withoutAccount hides this machine's AWS account from the client.
func withoutAccount(t *testing.T) {
	t.Helper()
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	for _, file := range []string{"AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"} {
		t.Setenv(file, filepath.Join(t.TempDir(), "none"))
	}
}

// aws is a Secrets Manager that holds secrets.
func secretsManager(t *testing.T, secrets map[string]string) *httptest.Server {
	t.Helper()
	withoutAccount(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ SecretId string } //nolint:revive // The wire's name.
		_ = json.NewDecoder(r.Body).Decode(&asked)
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		value, ok := secrets[asked.SecretId]
		switch {
		case asked.SecretId == "byok/acme/slow":
			<-r.Context().Done()
		case asked.SecretId == "byok/acme/denied":
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"__type":"AccessDeniedException","Message":"no"}`))
		case !ok:
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"__type":"ResourceNotFoundException","Message":"none"}`))
		case strings.HasSuffix(r.Header.Get("X-Amz-Target"), "DescribeSecret"):
			_, _ = w.Write([]byte(`{"Name":"n","VersionIdsToStages":{"v1":["AWSCURRENT"]},"LastChangedDate":1}`))
		default:
			_ = json.NewEncoder(w).Encode(map[string]any{"Name": asked.SecretId, "SecretString": value, "VersionId": "v1", "CreatedDate": 1, "VersionStages": []string{"AWSCURRENT"}})
		}
	}))
	t.Cleanup(server.Close)
	return server
}

func TestSecretManager(t *testing.T) {
	const canary = "sk-canary-cloud-0123456789"
	server := secretsManager(t, map[string]string{"byok/acme/openai": canary + "\n", "byok/bolt/openai": "bolts"})
	r, err := New(Options{Managers: []string{
		"awssecretsmanager://byok/{organization}/?region=eu-west-1&anonymous=true&endpoint=" + url.QueryEscape(server.URL),
	}})
	if err != nil {
		t.Fatal(err)
	}
	value, err := r.Read(t.Context(), "acme", "awssecretsmanager://byok/acme/openai")
	if err != nil || value.Reveal() != canary {
		t.Fatalf("its own: %q, %v", value.Reveal(), err)
	}
	if _, err := r.Read(t.Context(), "acme", "awssecretsmanager://byok/acme/absent"); !errors.Is(err, ErrAbsent) {
		t.Errorf("absent: %v", err)
	}
	if _, err := r.Read(t.Context(), "acme", "awssecretsmanager://byok/acme/denied"); err == nil || errors.Is(err, ErrAbsent) || errors.Is(err, ErrRefused) {
		t.Errorf("denied: %v, want an error that may pass", err)
	}
	for _, reference := range []string{
		"awssecretsmanager://byok/bolt/openai", "awssecretsmanager://byok/acme/../bolt/openai", "awssecretsmanager://byok/acme/x/openai",
		"awssecretsmanager://byok/acme/openai?endpoint=http://127.0.0.1:1", "awssecretsmanager://byok/acme/openai#f",
		"awssecretsmanager://me@byok/acme/openai", "awssecretsmanager://byok/acme%2Fopenai", "awssecretsmanager:byok/acme/openai",
		"awsparamstore://byok/acme/openai", "gcpsecretmanager://byok/acme/openai", "AWSSECRETSMANAGER://byok/acme/openai",
	} {
		if _, err := r.Read(t.Context(), "acme", reference); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v, want a refusal", reference, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = r.Read(ctx, "acme", "awssecretsmanager://byok/acme/slow")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a manager that doesn't answer: %v, want %v", err, context.DeadlineExceeded)
	}
	server.CloseClientConnections()
	testkit.NoLeak(t, canary, err.Error())
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}
