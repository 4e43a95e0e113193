package identity

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
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

func (s *tokenServer) delay() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.takes
}

func (s *tokenServer) Exchange(ctx context.Context) (Grant, error) {
	select {
	case <-ctx.Done():
		return Grant{}, ctx.Err()
	case <-time.After(s.delay()):
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
// A vendor that refuses every token causes one exchange a second at most.
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
// A replica that stops reports no failures of its identities.
// A token server that answers nothing is given up after a while.
// The fingerprint follows what an exchange says whom it stands for, and never the token.
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
