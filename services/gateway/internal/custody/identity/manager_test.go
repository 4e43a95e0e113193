package identity

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.uber.org/goleak"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/secret"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tokenServer answers exchanges, each with the next token.
type tokenServer struct {
	life  time.Duration
	takes time.Duration // how long an exchange takes
	renew time.Duration // what the vendor wants; 0 for nothing

	mu      sync.Mutex
	n       int
	times   []time.Duration // of the exchanges, since the start
	start   time.Time
	err     error
	subject string
	panics  bool
}

func newTokenServer(life time.Duration) *tokenServer {
	return &tokenServer{life: life, start: time.Now()}
}

func (s *tokenServer) Exchange(ctx context.Context) (Grant, error) {
	select {
	case <-ctx.Done():
		return Grant{}, ctx.Err()
	case <-time.After(s.takes):
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	s.times = append(s.times, time.Since(s.start))
	switch {
	case s.panics:
		panic("bug in a library")
	case s.err != nil:
		return Grant{}, s.err
	}
	now := time.Now()
	g := Grant{Token: secret.New(fmt.Sprintf("token-%d", s.n)), Expires: now.Add(s.life), Subject: s.subject}
	if s.renew > 0 {
		g.Renew = now.Add(s.renew)
	}
	return g, nil
}

func (s *tokenServer) set(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *tokenServer) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

func fingerprint(v secret.Value) string {
	sum := sha256.Sum256([]byte(v.Reveal()))
	return hex.EncodeToString(sum[:8])
}

var openAIConfig = Config{OIDC: &OIDC{Vendor: VendorOpenAI, ServiceAccountID: "sa"}}

// newManager returns a manager whose identities all ask one server, and what it logs.
func newManager(t *testing.T, server Source, meter metric.Meter) (*Manager, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	m, err := NewManager(Options{
		Open:        func(Config) (Source, error) { return server, nil },
		Fingerprint: fingerprint, Log: slog.New(slog.NewTextHandler(&log, nil)), Meter: meter,
	})
	if err != nil {
		t.Fatal(err)
	}
	return m, &log
}

// run runs a manager until the test's bubble ends.
func run(t *testing.T, m *Manager) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

func use(t *testing.T, i *Identity) string {
	t.Helper()
	c, err := i.Credential(t.Context())
	if err != nil {
		t.Fatalf("at %v: %v", time.Now(), err)
	}
	return c.Key.Reveal()
}

func must(i *Identity, err error) *Identity {
	if err != nil {
		panic(err)
	}
	return i
}

// The fleet's identities are exchanged before they are used, and renewed before they end, whether they are used or not.
func TestFleetIsRenewedAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newTokenServer(100 * time.Second)
		m, _ := newManager(t, server, nil)
		i := must(m.Fleet(openAIConfig))
		defer run(t, m)()
		synctest.Wait()
		if n := server.count(); n != 1 {
			t.Fatalf("%d exchanges before the first use, want 1", n)
		}
		time.Sleep(10 * time.Minute)
		server.mu.Lock()
		defer server.mu.Unlock()
		for at := 1; at < len(server.times); at++ {
			if gap := server.times[at] - server.times[at-1]; gap < 76*time.Second || gap > 80*time.Second {
				t.Errorf("renewed after %v, want 76s to 80s of 100s", gap)
			}
		}
		if len(server.times) < 7 {
			t.Errorf("%d exchanges in ten minutes, want 8", len(server.times))
		}
		runtime.KeepAlive(i)
	})
}

// Many callers that find no credential make one exchange and wait for it; each only as long as its context allows.
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

// While renewing fails, the credential serves until it ends; the attempts back off, and are reported once.
func TestFailuresKeepTheCredential(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newTokenServer(1000 * time.Second)
		m, log := newManager(t, server, nil)
		i := must(m.Fleet(openAIConfig))
		stop := run(t, m)
		synctest.Wait()
		server.set(&RefusedError{Host: "sts", Status: 400, Code: "invalid_grant"})
		time.Sleep(999 * time.Second)
		if got := use(t, i); got != "token-1" {
			t.Errorf("shortly before its end: %s", got)
		}
		tries := server.count()
		if tries < 5 || tries > 12 {
			t.Errorf("%d exchanges, want a handful with backoff", tries)
		}
		if s := i.Status(); s.Failures != tries-1 || s.Error != "refused by sts: status 400: invalid_grant" {
			t.Errorf("status %+v", s)
		}
		time.Sleep(2 * time.Second)
		start := time.Now()
		_, err := i.Credential(t.Context())
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "invalid_grant") {
			t.Errorf("behind its end: %v", err)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("a caller waited %v for an exchange that is not due", took)
		}
		server.set(nil)
		time.Sleep(maxBackoff)
		if got := use(t, i); !strings.HasPrefix(got, "token-") {
			t.Errorf("recovered: %s", got)
		}
		stop()
		text := log.String()
		if n := strings.Count(text, "can't be exchanged"); n != 1 {
			t.Errorf("%d warnings, want 1:\n%s", n, text)
		}
		if !strings.Contains(text, "exchanged again") {
			t.Errorf("the recovery is not logged:\n%s", text)
		}
	})
}

// A refused token is exchanged anew, once, and only if it is still the one in use and at least a second old.
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

// A vendor that refuses every token causes one exchange a second at most.
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

// An organization's identity is exchanged at its first use and renewed for an hour after its last.
func TestIdleIdentitiesRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newTokenServer(10 * time.Minute)
		m, _ := newManager(t, server, nil)
		i := must(m.Own(openAIConfig))
		defer run(t, m)()
		time.Sleep(2 * time.Hour)
		if n := server.count(); n != 0 {
			t.Fatalf("%d exchanges without a use", n)
		}
		use(t, i)
		time.Sleep(time.Hour)
		n := server.count()
		if n < 7 {
			t.Errorf("%d exchanges within the hour after a use, want about 8", n)
		}
		time.Sleep(3 * time.Hour)
		if late := server.count(); late > n+1 {
			t.Errorf("%d further exchanges of an idle identity", late-n)
		}
		if s := i.Status(); !s.Issued.IsZero() {
			t.Error("the credential that ended is still in memory")
		}
		use(t, i)
	})
}

// The same configuration has one identity for as long as something holds it, so that a reload keeps its token.
func TestReloadsKeepIdentities(t *testing.T) {
	server := newTokenServer(time.Hour)
	m, _ := newManager(t, server, nil)
	first := must(m.Fleet(openAIConfig))
	same := must(m.Fleet(Config{OIDC: &OIDC{Vendor: VendorOpenAI, ServiceAccountID: "sa"}}))
	if first != same {
		t.Error("equal configurations have two identities")
	}
	other := must(m.Fleet(Config{OIDC: &OIDC{Vendor: VendorOpenAI, ServiceAccountID: "sb"}}))
	own := must(m.Own(openAIConfig))
	if first == other || first == own {
		t.Error("another configuration, or another owner, has the same identity")
	}
	if n := len(m.all()); n != 3 {
		t.Errorf("%d identities, want 3", n)
	}
	runtime.KeepAlive([]*Identity{first, same, other, own})
	first, same, other, own = nil, nil, nil, nil //nolint:ineffassign,wastedassign // They are let go.
	for range 10 {
		runtime.GC()
		if len(m.all()) == 0 {
			break
		}
	}
	if n := len(m.all()); n != 0 {
		t.Errorf("%d identities are kept that nothing holds", n)
	}
}

// Secrets within configurations tell identities apart, too.
func TestSecretsAreInTheKey(t *testing.T) {
	server := newTokenServer(time.Hour)
	m, _ := newManager(t, server, nil)
	of := func(text string) *Identity {
		return must(m.Own(Config{Azure: &Azure{TenantID: "t", ClientID: "c", ClientSecret: secret.New(text)}}))
	}
	a, b, again := of("one"), of("two"), of("one")
	if a == b || a != again {
		t.Error("identities are not told apart by their secrets")
	}
}

func TestRunRenewsManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newTokenServer(time.Hour)
		server.takes = time.Second
		m, _ := newManager(t, server, nil)
		var all []*Identity
		for n := range 100 {
			all = append(all, must(m.Fleet(Config{OIDC: &OIDC{Vendor: VendorOpenAI, ServiceAccountID: fmt.Sprint(n)}})))
		}
		defer run(t, m)()
		time.Sleep(14 * time.Second)
		if n := server.count(); n != 100 {
			t.Errorf("%d exchanges in 14s, want 100: 8 at a time, a second each", n)
		}
		runtime.KeepAlive(all)
	})
}

// A library that panics fails one exchange, and nothing else.
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

// A replica that stops reports no failures of its identities.
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

// A token server that answers nothing is given up after a while.
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

// The fingerprint follows what an exchange says whom it stands for, and never the token.
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

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := sdk.NewManualReader()
		server := newTokenServer(100 * time.Second)
		m, _ := newManager(t, server, sdk.NewMeterProvider(sdk.WithReader(reader)).Meter("test"))
		i := must(m.Fleet(openAIConfig))
		use(t, i)
		time.Sleep(40 * time.Second)
		want(t, reader, map[string]float64{"exchanges granted": 1, "failing": 0, "left": 60})
		server.set(errors.New("down"))
		time.Sleep(time.Minute)
		if _, err := i.Credential(t.Context()); err == nil {
			t.Error("an ended credential is given out")
		}
		want(t, reader, map[string]float64{"exchanges granted": 1, "exchanges failed": 1, "failing": 1, "left": 0})
	})
}

// want compares the metrics of the kind "oidc".
func want(t *testing.T, reader sdk.Reader, want map[string]float64) {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, m := range all.ScopeMetrics[0].Metrics {
		name := strings.TrimPrefix(m.Name, "switchyard.gateway.identity.")
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				outcome, _ := p.Attributes.Value("outcome")
				got[name+" "+outcome.AsString()] = float64(p.Value)
			}
		case metricdata.Gauge[int64]:
			for _, p := range data.DataPoints {
				if kind, _ := p.Attributes.Value("kind"); kind.AsString() == "oidc" {
					got[name] = float64(p.Value)
				}
			}
		case metricdata.Gauge[float64]:
			for _, p := range data.DataPoints {
				got[name] = p.Value
			}
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("metrics %v, want %v", got, want)
	}
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
