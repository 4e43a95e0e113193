package app

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/migrations"
	"switchyard.dev/services/platform/testkit"
)

// A revocation reaches a replica that never heard of it, through Redis and
// through the change feed alone.
func TestRevocationReachesEveryReplica(t *testing.T) {
	for name, redisURL := range map[string]string{"announced": os.Getenv("SWITCHYARD_TEST_REDIS_URL"), "feed alone": ""} {
		t.Run(name, func(t *testing.T) {
			if name == "announced" {
				testkit.Redis(t) // or skip
			}
			url, _ := gateway(t)
			f := newFleet(t, url, testkit.PostgresURL(t, migrations.FS), redisURL)
			replicas := []*replica{f.start(t), f.start(t)}
			id, key := f.newKey(t)
			for _, x := range replicas {
				if status, err := x.chat(t.Context(), key); status != 200 {
					t.Fatal(status, err)
				}
			}
			f.command(t, "keys", "revoke", id)
			revoked := time.Now()
			for _, x := range replicas {
				status := 200
				for status == 200 {
					status, _ = x.chat(t.Context(), key)
				}
				if status != http.StatusUnauthorized {
					t.Errorf("status %d, want 401", status)
				}
			}
			t.Logf("refused everywhere after %v", time.Since(revoked)) // the bound is proved in apikey, in bubble time
		})
	}
}

// A service token that is taken out of the file opens nothing any more.
func TestServiceTokensAreReloaded(t *testing.T) {
	url, _ := gateway(t)
	f := newFleet(t, url, testkit.PostgresURL(t, migrations.FS), "")
	x := f.startControl(t)
	x.counted(t) // the token opens
	for _, setting := range f.environ {
		if path, ok := strings.CutPrefix(setting, "EDGE_SERVICE_TOKENS_FILE="); ok {
			text := "tokens: [{name: op, role: operator, sha256: " + strings.Repeat("00", sha256.Size) + "}]"
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	testkit.Wait(t, "the old token is refused", func() error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, x.url+"/admin/v1/usage", nil)
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", "Bearer "+operatorToken)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		_ = answer.Body.Close()
		if answer.StatusCode != http.StatusUnauthorized {
			return fmt.Errorf("status %d", answer.StatusCode)
		}
		return nil
	})
}

// The announcement alone, with no feed: what Redis carries is understood.
func TestBus(t *testing.T) {
	client := testkit.Redis(t)
	b := newBus(client)
	received := make(chan apikey.Digest, 64)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.listen(ctx, func(d apikey.Digest) { received <- d }) }()
	for want := (apikey.Digest{1, 2, 3}); ; {
		for _, nonsense := range []string{"", "xyz", strings.Repeat("ab", 33)} {
			if err := client.Publish(t.Context(), b.channel, nonsense).Err(); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Announce(t.Context(), want); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-received:
			if got != want {
				t.Errorf("received %x, want %x", got, want)
			}
			stop()
			if err := <-done; err != nil {
				t.Errorf("listen = %v", err)
			}
			return
		case <-time.After(time.Millisecond): // not subscribed yet
		}
	}
}

// A key that is revoked over one replica is refused there with the next call, and without the control nothing changes
// but that operators get 503.
func TestControl(t *testing.T) {
	url, _ := gateway(t)
	f := newFleet(t, url, testkit.PostgresURL(t, migrations.FS), "")
	control := f.startControl(t)
	x := f.start(t)
	operator := func(method, path string) int {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, x.url+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+operatorToken)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	for range 5 {
		id, key := f.newKey(t)
		if status, err := x.chat(t.Context(), key); status != http.StatusOK {
			t.Fatal(status, err)
		}
		if status := operator(http.MethodDelete, "/admin/v1/keys/"+id); status != http.StatusNoContent {
			t.Fatalf("revoke: %d", status)
		}
		if status, _ := x.chat(t.Context(), key); status != http.StatusUnauthorized {
			t.Errorf("a revoked key: %d, want 401", status)
		}
	}
	_, key := f.newKey(t)
	control.kill()
	if status, err := x.chat(t.Context(), key); status != http.StatusOK {
		t.Errorf("a customer without the control: %d, %v", status, err)
	}
	testkit.Wait(t, "503 for operators", func() error { // A connection to it may break first.
		if status := operator(http.MethodGet, "/admin/v1/keys"); status != http.StatusServiceUnavailable {
			return fmt.Errorf("status %d", status)
		}
		return nil
	})
}

// The public listener serves no metrics, and the listener of metrics nothing else.
func TestMetricsHaveAListenerOfTheirOwn(t *testing.T) {
	f := newFleet(t, "http://127.0.0.1:1", testkit.PostgresURL(t, migrations.FS), "")
	x := f.start(t)
	for url, want := range map[string]int{
		x.url + "/metrics": http.StatusNotFound, x.metrics + "/metrics": http.StatusOK,
		x.metrics + "/admin/v1/keys": http.StatusNotFound, x.metrics + "/health/ready": http.StatusNotFound,
	} {
		answer, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%s: status %d, want %d", url, answer.StatusCode, want)
		}
		if strings.Contains(string(text), "# TYPE") != (want == http.StatusOK) {
			t.Errorf("%s: %.200s", url, text)
		}
	}
}
