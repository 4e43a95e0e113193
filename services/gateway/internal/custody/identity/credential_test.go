package identity

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/secret"
)

func TestFirstExchangeIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newTokenServer(time.Hour)
		server.takes = 5 * time.Second
		m, _ := newManager(t, server, nil)
		i := must(m.Own(openAIConfig))
		if _, ok := i.Current(); ok || server.count() != 0 {
			t.Error("there is a credential before the first exchange, or asking for it made one")
		}
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if _, err := i.Credential(impatient); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnavailable) {
			t.Errorf("with a second's patience: %v", err)
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("waited %v, want 1s", took)
		}
		var group sync.WaitGroup
		for range 100 {
			group.Go(func() {
				if got := use(t, i); got != "token-1" {
					t.Errorf("got %s", got)
				}
			})
		}
		group.Wait()
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("the others waited %v, want 5s: the first caller's exchange goes on without it", took)
		}
		if n := server.count(); n != 1 {
			t.Errorf("%d exchanges, want 1", n)
		}
		if c, ok := i.Current(); !ok || c.Key.Reveal() != "token-1" {
			t.Error("there is no current credential behind the exchange")
		}
	})
}

func TestDrop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newTokenServer(time.Hour)
		m, _ := newManager(t, server, nil)
		i := must(m.Fleet(openAIConfig))
		defer run(t, m)()
		synctest.Wait()
		first, err := i.Credential(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		i.Drop(first)
		if synctest.Wait(); server.count() != 1 {
			t.Error("a token of the same second was exchanged")
		}
		time.Sleep(time.Second)
		i.Drop(provider.Credential{Key: secret.New("another")})
		if synctest.Wait(); server.count() != 1 {
			t.Error("another token's refusal made an exchange")
		}
		for range 10 {
			i.Drop(first)
		}
		synctest.Wait()
		if got := use(t, i); got != "token-2" || server.count() != 2 {
			t.Errorf("%s after %d exchanges, want token-2 after 2", got, server.count())
		}
		time.Sleep(time.Minute)
		i.Drop(first) // Late: it is no longer in use.
		if synctest.Wait(); server.count() != 2 {
			t.Error("an old token's refusal made an exchange")
		}
	})
}

func TestRefusalsOfAllTokensAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newTokenServer(time.Hour)
		m, _ := newManager(t, server, nil)
		i := must(m.Own(openAIConfig))
		for range 1000 {
			c, err := i.Credential(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			i.Drop(c)
			time.Sleep(10 * time.Millisecond)
		}
		if n := server.count(); n < 9 || n > 11 {
			t.Errorf("%d exchanges in ten seconds, want one a second", n)
		}
	})
}

func TestPanicIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newTokenServer(time.Hour)
		server.panics = true
		m, _ := newManager(t, server, nil)
		i := must(m.Own(openAIConfig))
		if _, err := i.Credential(t.Context()); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%v", err)
		}
	})
}

func TestStopIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newTokenServer(time.Hour)
		server.takes = 10 * time.Second
		m, log := newManager(t, server, nil)
		i := must(m.Fleet(openAIConfig))
		stop := run(t, m)
		time.Sleep(time.Second)
		stop()
		if log.Len() > 0 || i.Status().Failures > 0 {
			t.Errorf("logged %q", log)
		}
	})
}

func TestExchangeIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newTokenServer(time.Hour)
		server.takes = time.Hour
		m, _ := newManager(t, server, nil)
		i := must(m.Own(openAIConfig))
		start := time.Now()
		if _, err := i.Credential(t.Context()); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%v", err)
		}
		if took := time.Since(start); took != exchangeTime {
			t.Errorf("took %v, want %v", took, exchangeTime)
		}
	})
}

func TestGrantsThatCannotBeUsed(t *testing.T) {
	now := time.Now()
	later := now.Add(time.Hour)
	for name, g := range map[string]Grant{
		"no token":            {Expires: later},
		"no end":              {Token: secret.New("t")},
		"ended":               {Token: secret.New("t"), Expires: now},
		"a line break":        {Token: secret.New("t\r\nX-Evil: 1"), Expires: later},
		"too long":            {Token: secret.New(strings.Repeat("t", maxToken+1)), Expires: later},
		"a token and signer":  {Token: secret.New("t"), Signer: signer{}, Expires: later},
		"a signer that ended": {Signer: signer{}, Expires: now.Add(-time.Second)},
	} {
		if err := g.check(now); err == nil {
			t.Errorf("%s: taken", name)
		} else if strings.Contains(err.Error(), "Evil") {
			t.Errorf("%s: the error repeats the token: %v", name, err)
		}
	}
	for name, g := range map[string]Grant{
		"a token": {Token: secret.New("t"), Expires: later}, "a static signer": {Signer: signer{}, Renew: later},
	} {
		if err := g.check(now); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

type signer struct{}

func (signer) Sign(context.Context, *http.Request, [sha256.Size]byte, time.Time) error { return nil }

func TestRenewal(t *testing.T) {
	issued := time.Unix(1_800_000_000, 0)
	in := issued.Add
	for name, c := range map[string]struct {
		grant   Grant
		expires time.Time
		chance  float64
		want    time.Duration
	}{
		"four fifths":            {Grant{}, in(time.Hour), 0, 48 * time.Minute},
		"by chance earlier":      {Grant{}, in(time.Hour), 1, 48*time.Minute - 144*time.Second},
		"as the vendor wants":    {Grant{Renew: in(20 * time.Minute)}, in(time.Hour), 0, 20 * time.Minute},
		"not behind the end":     {Grant{Renew: in(2 * time.Hour)}, in(time.Hour), 0, 48 * time.Minute},
		"not before the issue":   {Grant{Renew: in(-time.Hour)}, in(time.Hour), 0, 48 * time.Minute},
		"not within a second":    {Grant{}, in(500 * time.Millisecond), 0, time.Second},
		"a static key's rereads": {Grant{Renew: in(time.Minute)}, time.Time{}, 0, time.Minute},
	} {
		if got := renewal(c.grant, issued, c.expires, c.chance).Sub(issued); got != c.want {
			t.Errorf("%s: after %v, want %v", name, got, c.want)
		}
	}
}

func TestBackoff(t *testing.T) {
	for failures, want := range map[int]time.Duration{1: time.Second, 2: 2 * time.Second, 6: 32 * time.Second, 7: time.Minute, 1 << 30: time.Minute} {
		if got := backoff(failures, 0); got != want {
			t.Errorf("after %d failures %v, want %v", failures, got, want)
		}
	}
	if got := backoff(7, 1); got != 45*time.Second {
		t.Errorf("a quarter less by chance: %v", got)
	}
}

func TestLife(t *testing.T) {
	for seconds, want := range map[float64]time.Duration{3599: 3599 * time.Second, 0.5: 500 * time.Millisecond, 0: 0, -1: 0, 1e300: 365 * 24 * time.Hour} {
		if got := Life(seconds); got != want {
			t.Errorf("%v: %v, want %v", seconds, got, want)
		}
	}
}

func TestFingerprint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newTokenServer(time.Hour)
		server.subject = "robot@project"
		m, _ := newManager(t, server, nil)
		i := must(m.Fleet(Config{GCP: &GCP{CredentialsFile: "/keys/google.json"}}))
		if got := i.Status().Fingerprint; got != fingerprint(secret.New("gcp:/keys/google.json")) {
			t.Errorf("before: %s", got)
		}
		c, err := i.Credential(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if c.Fingerprint != fingerprint(secret.New("gcp:robot@project")) || c.Source != "fleet" || !c.Bearer {
			t.Errorf("credential %+v", c)
		}
	})
}

func TestCredentialDoesNotAllocate(t *testing.T) {
	m, _ := newManager(t, newTokenServer(time.Hour), nil)
	i := must(m.Own(openAIConfig))
	use(t, i)
	ctx := t.Context()
	if n := testing.AllocsPerRun(1000, func() { _, _ = i.Credential(ctx) }); n > 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func BenchmarkCredential(b *testing.B) {
	m, err := NewManager(Options{Open: func(Config) (Source, error) { return newTokenServer(time.Hour), nil }, Fingerprint: fingerprint, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	i := must(m.Own(openAIConfig))
	for b.Loop() {
		if _, err := i.Credential(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
