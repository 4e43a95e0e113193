package endpoint_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/netguard"
	"switchyard.dev/services/platform/seal"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/endpoint"
	"switchyard.dev/services/webhook-egress/internal/filter"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestPatterns(t *testing.T) {
	for eventType, want := range map[string][]string{
		"paid":           {"*", "paid"},
		"order.paid":     {"*", "order.paid", "order.*"},
		"a.b.c":          {"*", "a.b.c", "a.*", "a.b.*"},
		"a.":             {"*", "a.", "a.*"},
		"shop/a:b.c-d_e": {"*", "shop/a:b.c-d_e", "shop/a:b.*"},
	} {
		if diff := cmp.Diff(want, endpoint.Patterns(eventType)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", eventType, diff)
		}
	}
}

// earlier returns secrets, each followed by the time from now on that it still signs.
func earlier(pairs ...any) (secrets []delivery.EarlierSecret) {
	for i := 0; i < len(pairs); i += 2 {
		secrets = append(secrets, delivery.EarlierSecret{Sealed: []byte(pairs[i].(string)), Until: now.Add(pairs[i+1].(time.Duration))})
	}
	return secrets
}

func TestApply(t *testing.T) {
	before := endpoint.Endpoint{
		URL: "https://a/", EventTypes: []string{"a"}, Active: true, SigningMode: "endpoint_body", Secret: []byte("1"), RatePerSecond: 3, Description: "d",
	}
	rotated, full := before, before
	rotated.Secret, rotated.Earlier = []byte("4"), earlier("3", 2*time.Hour, "2", time.Duration(0), "1", time.Minute)
	full.Secret, full.Earlier = []byte("4"), earlier("3", 2*time.Hour, "2", time.Second, "1", time.Minute)
	paused := before
	paused.Active, paused.DisabledReason, paused.DisabledAt, paused.FailingSince = false, "gone", now, now
	failing := before
	failing.URL, failing.FailingSince = "https://a/p", now.Add(-time.Hour)
	for name, tt := range map[string]struct {
		from   endpoint.Endpoint
		change endpoint.Change
		want   func(*endpoint.Endpoint)
	}{
		"nothing": {before, endpoint.Change{}, func(*endpoint.Endpoint) {}},
		"a url":   {before, endpoint.Change{URL: new("https://b/")}, func(e *endpoint.Endpoint) { e.URL, e.Moves = "https://b/", 1 }},
		"a path":  {before, endpoint.Change{URL: new("https://A:443/p?q")}, func(e *endpoint.Endpoint) { e.URL = "https://A:443/p?q" }},
		"a url of a failing one": {failing, endpoint.Change{URL: new("https://b/")}, func(e *endpoint.Endpoint) {
			e.URL, e.Moves, e.FailingSince = "https://b/", 1, time.Time{}
		}},
		"a path of a failing one": {failing, endpoint.Change{URL: new("https://a/q")}, func(e *endpoint.Endpoint) {
			e.URL, e.FailingSince = "https://a/q", time.Time{}
		}},
		"a query of a failing one": {failing, endpoint.Change{URL: new("https://a/p?q")}, func(e *endpoint.Endpoint) { e.URL = "https://a/p?q" }},
		"a path of a paused one":   {paused, endpoint.Change{URL: new("https://a/q")}, func(e *endpoint.Endpoint) { e.URL = "https://a/q" }},
		"types":                    {before, endpoint.Change{EventTypes: []string{"b"}}, func(e *endpoint.Endpoint) { e.EventTypes = []string{"b"} }},
		"no rate":                  {before, endpoint.Change{RatePerSecond: new(0.0)}, func(e *endpoint.Endpoint) { e.RatePerSecond = 0 }},
		"a pause":                  {before, endpoint.Change{Active: new(false)}, func(e *endpoint.Endpoint) { e.Active = false }},
		"a rotation": {before, endpoint.Change{Secret: []byte("2"), Overlap: time.Hour}, func(e *endpoint.Endpoint) {
			e.Secret, e.Earlier = []byte("2"), earlier("1", time.Hour)
		}},
		"a rotation in an overlap": {rotated, endpoint.Change{Secret: []byte("5"), Overlap: time.Hour}, func(e *endpoint.Endpoint) {
			e.Secret, e.Earlier = []byte("5"), earlier("4", time.Hour, "3", 2*time.Hour, "1", time.Minute)
		}},
		"a rotation in three overlaps": {full, endpoint.Change{Secret: []byte("5"), Overlap: time.Hour}, func(e *endpoint.Endpoint) {
			e.Secret, e.Earlier = []byte("5"), earlier("4", time.Hour, "3", 2*time.Hour, "2", time.Second)
		}},
		"one at once in an overlap": {full, endpoint.Change{Secret: []byte("5")}, func(e *endpoint.Endpoint) {
			e.Secret, e.Earlier = []byte("5"), nil
		}},
		"one at once": {before, endpoint.Change{Secret: []byte("2")}, func(e *endpoint.Endpoint) { e.Secret = []byte("2") }},
		"its end": {paused, endpoint.Change{Active: new(true)}, func(e *endpoint.Endpoint) {
			e.Active, e.DisabledReason, e.DisabledAt, e.FailingSince = true, "", time.Time{}, time.Time{}
		}},
		"a pause of paused": {paused, endpoint.Change{Active: new(false)}, func(*endpoint.Endpoint) {}},
	} {
		t.Run(name, func(t *testing.T) {
			want := tt.from
			want.Updated = now
			tt.want(&want)
			got, err := tt.change.Apply(tt.from, now)
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("(-want +got):\n%s%v", diff, err)
			}
		})
	}
	before.SigningMode = "org_timestamp"
	if _, err := (endpoint.Change{Secret: []byte("2")}).Apply(before, now); apierr.From(err).Reason != endpoint.ReasonSecretNotAllowed {
		t.Errorf("err = %v", err)
	}
}

// memory is a store of one endpoint, a waker and a deliverer.
type memory struct {
	mu sync.Mutex
	endpoint.Store

	kept    endpoint.Endpoint
	added   int
	woken   int
	tests   []delivery.TestDelivery
	pages   int
	failing error
}

// with looks at it, or changes it, between what the tested does.
func (m *memory) with(do func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	do()
}

func (m *memory) Add(_ context.Context, e endpoint.Endpoint, _ int) error {
	m.kept = e
	m.added++
	return nil
}

func (m *memory) Get(context.Context, endpoint.Scope, delivery.ID) (endpoint.Endpoint, error) {
	return m.kept, nil
}

func (m *memory) List(_ context.Context, _ endpoint.Filter, _ delivery.ID, limit int) ([]endpoint.Endpoint, error) {
	return slices.Repeat([]endpoint.Endpoint{m.kept}, limit), nil
}

func (m *memory) Update(_ context.Context, _ endpoint.Scope, _ delivery.ID, change func(endpoint.Endpoint) (endpoint.Endpoint, error)) (endpoint.Endpoint, error) {
	e, err := change(m.kept)
	if err == nil {
		m.kept = e
	}
	return e, err
}

func (m *memory) Delete(context.Context, endpoint.Scope, delivery.ID) error { return nil }

func (m *memory) CancelDeleted(context.Context, int) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pages--
	return m.pages > 0, m.failing
}

func (m *memory) Waiting() { m.woken++ }

func (m *memory) SendTest(_ context.Context, t delivery.TestDelivery) (delivery.Record, *delivery.Attempt, error) {
	m.tests = append(m.tests, t)
	return delivery.Record{}, nil, nil
}

const canary = "canary-endpoint-secret-of-24"

func service(t *testing.T, m *memory, change func(*endpoint.Options)) *endpoint.Service {
	t.Helper()
	guard, err := netguard.New(netguard.Options{AllowTargets: []string{"127.0.0.1:9000"}})
	if err != nil {
		t.Fatal(err)
	}
	box, err := seal.New(secret.New(strings.Repeat("ab", 32)), "webhook")
	if err != nil {
		t.Fatal(err)
	}
	filters, err := filter.New(func(filter.Verdict) {})
	if err != nil {
		t.Fatal(err)
	}
	clock := func() time.Time { return now }
	o := endpoint.Options{
		Store: m, Deliverer: m, Waker: m, Targets: delivery.NewTargets(guard, clock), Sealer: box, Log: testkit.Logger(t), Now: clock,
		Filters: filters, Opener: box, Secrets: organizations{},
	}
	if change != nil {
		change(&o)
	}
	return endpoint.NewService(o)
}

// organizations has the secrets of organizations.
type organizations map[string][]secret.Value

func (o organizations) Of(_ context.Context, organization string) []secret.Value {
	return o[organization]
}

func registration() endpoint.Registration {
	return endpoint.Registration{
		Scope: endpoint.Scope{Organization: "acme"}, URL: "http://127.0.0.1:9000/hook", EventTypes: []string{"*"},
		SigningMode: "endpoint_body", Secret: secret.New(canary),
	}
}

// A secret is kept sealed, for this endpoint alone.
func TestSecretIsSealed(t *testing.T) {
	m := &memory{}
	s := service(t, m, nil)
	e, _, err := s.Register(t.Context(), registration())
	if err != nil {
		t.Fatal(err)
	}
	testkit.NoLeak(t, canary, string(m.kept.Secret))
	box, _ := seal.New(secret.New(strings.Repeat("ab", 32)), "webhook")
	if text, err := box.Open(m.kept.Secret, e.ID.String()); err != nil || string(text) != canary {
		t.Errorf("opened %q, %v", text, err)
	}
	if _, err := box.Open(m.kept.Secret, delivery.NewID(now).String()); err == nil {
		t.Error("it opens for another endpoint")
	}
	if _, err := s.Update(t.Context(), endpoint.Scope{Organization: "acme"}, e.ID.String(), endpoint.Update{Secret: secret.New(canary + "2")}); err != nil {
		t.Fatal(err)
	}
	if text, err := box.Open(m.kept.Secret, e.ID.String()); err != nil || string(text) != canary+"2" || !m.kept.Earlier[0].Until.Equal(now.Add(24*time.Hour)) {
		t.Errorf("rotated to %q until %s, %v", text, m.kept.Earlier[0].Until, err)
	}
	if m.woken != 1 {
		t.Errorf("woken %d times", m.woken)
	}
}

func TestRefusals(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*endpoint.Registration)
		reason apierr.Reason
		text   string
	}{
		"no secret":             {func(r *endpoint.Registration) { r.Secret = secret.Value{} }, endpoint.ReasonSecretRequired, "signing_secret"},
		"a secret out of place": {func(r *endpoint.Registration) { r.SigningMode = "" }, endpoint.ReasonSecretNotAllowed, "signing_secret"},
		"a private target":      {func(r *endpoint.Registration) { r.URL = "https://192.168.0.1/" }, delivery.ReasonTargetNotAllowed, "url"},
		"all and one":           {func(r *endpoint.Registration) { r.EventTypes = []string{"a", "*"} }, apierr.ReasonInvalidRequest, "event_types"},
		"a filter with a fault": {func(r *endpoint.Registration) { r.Filter = "event.payload.a >" }, apierr.ReasonInvalidRequest, "filter"},
		"NUL in a filter":       {func(r *endpoint.Registration) { r.Filter = "'\x00' == ''" }, apierr.ReasonInvalidRequest, "filter"},
		"NUL in a text":         {func(r *endpoint.Registration) { r.Description = "\x00" }, apierr.ReasonInvalidRequest, "description"},
	} {
		t.Run(name, func(t *testing.T) {
			m := &memory{}
			r := registration()
			tt.change(&r)
			_, _, err := service(t, m, nil).Register(t.Context(), r)
			e := apierr.From(err)
			if e == nil {
				t.Fatal("it was accepted")
			}
			if e.Reason != tt.reason || !strings.HasPrefix(e.Text, tt.text+": ") {
				t.Errorf("%s %q, want %s and text that begins with %s", e.Reason, e.Text, tt.reason, tt.text)
			}
			if m.added != 0 {
				t.Error("it was stored")
			}
		})
	}
	keyless := service(t, &memory{}, func(o *endpoint.Options) { o.Sealer = nil })
	if _, _, err := keyless.Register(t.Context(), registration()); err == nil || !strings.Contains(err.Error(), "WEBHOOK_EGRESS_ENCRYPTION_KEY_FILE") {
		t.Errorf("without a key: %v", err)
	}
	s, id := service(t, &memory{}, nil), delivery.NewID(now).String()
	for text, u := range map[string]endpoint.Update{
		"secret_overlap_seconds": {Overlap: new(time.Hour)},
		"url":                    {URL: new("https://[::1]/")},
		"event_types":            {EventTypes: []string{"*", "a"}},
		"filter":                 {Filter: new("event.kind == 1")},
		"description":            {Description: new("\x00")},
	} {
		if _, err := s.Update(t.Context(), endpoint.Scope{}, id, u); err == nil || !strings.HasPrefix(apierr.From(err).Text, text+": ") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := s.Get(t.Context(), endpoint.Scope{}, "x"); apierr.From(err).Kind != apierr.KindNotFound {
		t.Errorf("err = %v", err)
	}
}

func TestListPages(t *testing.T) {
	m := &memory{kept: endpoint.Endpoint{ID: delivery.NewID(now)}}
	page, next, err := service(t, m, nil).List(t.Context(), endpoint.Filter{}, delivery.LastID, 3)
	if err != nil || len(page) != 3 || next != m.kept.ID {
		t.Errorf("%d of a page, next %s, %v", len(page), next, err)
	}
}

func TestPing(t *testing.T) {
	m := &memory{kept: endpoint.Endpoint{ID: delivery.NewID(now), Organization: "acme", Owner: "ann", URL: "https://a/", SigningMode: "endpoint_body", Secret: []byte{1}, Earlier: []delivery.EarlierSecret{{Sealed: []byte{2}, Until: now}}, Moves: 3}}
	s := service(t, m, nil)
	if _, _, err := s.Test(t.Context(), endpoint.Scope{}, m.kept.ID.String(), endpoint.Test{}); err != nil {
		t.Fatal(err)
	}
	want := delivery.TestDelivery{
		Organization: "acme", Owner: "ann", URL: "https://a/", EventType: "switchyard.ping", SigningMode: "endpoint_body",
		Payload:  []byte(`{"type":"switchyard.ping","occurred_at":"2026-01-02T03:04:05Z","endpoint_id":"` + m.kept.ID.String() + `"}`),
		Endpoint: delivery.JobEndpoint{ID: m.kept.ID, Secret: []byte{1}, Earlier: []delivery.EarlierSecret{{Sealed: []byte{2}, Until: now}}, Moves: 3},
	}
	if diff := cmp.Diff(want, m.tests[0]); diff != "" {
		t.Errorf("test (-want +got):\n%s", diff)
	}
}

// What a deletion leaves is cancelled later, whatever went wrong before.
func TestRunCancelsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{pages: 30}
		s := service(t, m, nil)
		if err := s.Delete(t.Context(), endpoint.Scope{}, delivery.NewID(now).String()); err != nil || m.pages != 10 {
			t.Fatalf("%d pages left, %v", m.pages, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		time.Sleep(6 * time.Second)
		synctest.Wait()
		m.with(func() {
			if m.pages != 0 {
				t.Errorf("%d pages left", m.pages)
			}
			m.failing = errors.New("away")
		})
		time.Sleep(6 * time.Second)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestStatus(t *testing.T) {
	now := time.Now()
	for want, e := range map[endpoint.Status]endpoint.Endpoint{
		"active":   {Active: true},
		"failing":  {Active: true, FailingSince: now},
		"paused":   {FailingSince: now},
		"disabled": {FailingSince: now, DisabledReason: "failing", DisabledAt: now},
	} {
		if got := e.Status(); got != want {
			t.Errorf("status %q, want %q", got, want)
		}
	}
}
