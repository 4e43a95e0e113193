package status

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/governance/steering"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

var at = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func well(id string, vendors ...ProviderReport) Report {
	return Report{Replica: id, Ready: true, Vendors: vendors}
}

func TestJudge(t *testing.T) {
	good := ProviderReport{Provider: "v", Attempts: 50, RecentAttempts: 10, Circuits: 1}
	silent, draining, troubled, unready := well("b"), well("b"), well("b"), well("b")
	silent.Age, draining.Draining, troubled.Problems, unready.Ready = 11*time.Second, true, []string{"redis_away"}, false
	for _, c := range []struct {
		name    string
		reports []Report
		want    string // verdict, gateway, vendors, and v
	}{
		{"nobody called", []Report{well("a")}, "operational up unknown unknown"},
		{"all is well", []Report{well("a", good), well("b", good)}, "operational up up up"},
		{"one failure is bad luck", []Report{well("a", ProviderReport{Provider: "v", RecentAttempts: 5, RecentFailures: 1, Attempts: 5, Failures: 1})}, "operational up up up"},
		{"a few fail", []Report{well("a", ProviderReport{Provider: "v", RecentAttempts: 10, RecentFailures: 2})}, "vendor_degraded up degraded degraded"},
		{"few of many fail", []Report{well("a", ProviderReport{Provider: "v", RecentAttempts: 100, RecentFailures: 2})}, "operational up up up"},
		{"all fail", []Report{well("a", ProviderReport{Provider: "v", RecentAttempts: 3, RecentFailures: 3})}, "vendor_down up down down"},
		{"all of two is too little", []Report{well("a", ProviderReport{Provider: "v", RecentAttempts: 2, RecentFailures: 2})}, "vendor_degraded up degraded degraded"},
		{"it failed, and answers again", []Report{well("a", ProviderReport{Provider: "v", RecentAttempts: 4, Attempts: 20, Failures: 16})}, "operational up up up"},
		{"every circuit is open", []Report{well("a", ProviderReport{Provider: "v", Circuits: 2, Open: 2})}, "vendor_down up down down"},
		{"one of two circuits is open", []Report{well("a", ProviderReport{Provider: "v", Circuits: 2, Open: 1, RecentAttempts: 5})}, "vendor_degraded up degraded degraded"},
		{"one replica of three can't reach it", []Report{well("a", good), well("b", good), well("c", ProviderReport{Provider: "v", Circuits: 1, Open: 1})}, "vendor_degraded up degraded degraded"},
		{"what a silent replica saw says nothing", []Report{well("a", good), func() Report {
			r := silent
			r.Vendors = []ProviderReport{{Provider: "v", Circuits: 1, Open: 1}}
			return r
		}()}, "gateway_degraded degraded up up"},
		{"a silent replica", []Report{well("a"), silent}, "gateway_degraded degraded unknown unknown"},
		{"a replica that stops is none", []Report{well("a"), draining}, "operational up unknown unknown"},
		{"a troubled replica", []Report{well("a", ProviderReport{Provider: "v", RecentAttempts: 9, RecentFailures: 9}), troubled}, "gateway_degraded degraded down down"},
		{"nobody takes requests", []Report{unready}, "gateway_down down unknown unknown"},
		{"only one that stops", []Report{draining}, "gateway_down down unknown unknown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := Judge(c.reports, []string{"v"}, at)
			if got := fmt.Sprint(f.Verdict, " ", f.Gateway, " ", f.Vendor, " ", f.Vendors[0].State); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			if f.Summary == "" || !strings.HasSuffix(f.Summary, ".") || strings.Contains(f.Summary, "; ;") {
				t.Errorf("summary %q", f.Summary)
			}
		})
	}
	f := Judge([]Report{well("a", ProviderReport{Provider: "v", RecentAttempts: 4, RecentFailures: 4, LastClass: "server_error", LastFailure: at}), well("b", good)}, []string{"w", "v"}, at)
	v := f.Vendors[0]
	if v.Attempts != 14 || v.ErrorRate != 4.0/14 {
		t.Errorf("%d attempts with the error rate %v, want 14 with 4/14", v.Attempts, v.ErrorRate)
	}
	if v.LastClass != "server_error" || !v.LastFailure.Equal(at) {
		t.Errorf("the last failure: %q at %s, want server_error at %s", v.LastClass, v.LastFailure, at)
	}
	if state := f.Vendors[1].State; state != Unknown {
		t.Errorf("a vendor without reports is %s", state)
	}
}

const policyText = `
default_model: {chat: one/big, embeddings: one/vectors}
providers:
  - {name: one, dialect: openai, base_url: https://one.example, key_file: one.key, models: [{name: big, operations: [chat]}, {name: vectors, operations: [embeddings]}]}
  - {name: two, dialect: anthropic, base_url: https://two.example, key_file: two.key, models: [{name: wise, operations: [chat]}]}
  - {name: three, dialect: openai, base_url: https://three.example, key_file: three.key, models: [{name: other, operations: [chat]}]}
goals: {quality: [one/big, two/wise]}
ladder: {chat: [two/wise]}
`

func facts(t *testing.T, keys ...string) Facts {
	t.Helper()
	p, err := policy.Parse(policy.Source{Text: []byte(policyText)}, policy.Source{})
	if err != nil {
		t.Fatal(err)
	}
	return Facts{
		Policy: p, Now: at, HasKey: func(provider string) bool { return slices.Contains(keys, provider) },
		Bulkheads: func(string) health.Bulkhead { return health.Bulkhead{Limit: 10} },
	}
}

// The dependency of the fleet's keys names the providers without a key, their files and the setting, up to a bound.
func TestMissingKeysAreNamed(t *testing.T) {
	p := &policy.Policy{}
	for i := range maxKeysNamed + 3 {
		p.Providers = append(p.Providers, policy.Provider{Name: fmt.Sprintf("p%d", i), KeyFile: fmt.Sprintf("/keys/p%d.key", i)})
	}
	f := Facts{Policy: p, HasKey: func(provider string) bool { return provider == "p1" }}
	d := secrets(f)
	if d.State != Degraded || strings.Contains(d.Mitigation, "/keys/p1.key") {
		t.Errorf("%+v", d)
	}
	for _, part := range []string{"p0 (/keys/p0.key), p2 (/keys/p2.key)", "GATEWAY_FLEET_KEYS_DIR", " and 2 more"} {
		if !strings.Contains(d.Mitigation, part) {
			t.Errorf("%q, want %q in it", d.Mitigation, part)
		}
	}
	f.HasKey = func(string) bool { return false }
	if d := secrets(f); d.State != Down {
		t.Errorf("without any key: %v", d.State)
	}
	f.HasKey = func(string) bool { return true }
	if d := secrets(f); d.State != Up || strings.Contains(d.Mitigation, "/keys/") {
		t.Errorf("with all keys: %+v", d)
	}
}

func TestProviders(t *testing.T) {
	open := health.Status{Circuit: health.Circuit{Provider: "one", Family: "big"}, State: health.State{Phase: health.Open}}
	closed := health.Status{Circuit: health.Circuit{Provider: "one", Family: "vectors"}}
	failing := health.Figures{Target: provider.Target{Provider: "one", Model: "big"}, Circuit: open.Circuit, RecentCalls: 10, RecentFailures: 4, LastBad: at, LastClass: "transient"}
	for _, c := range []struct {
		name   string
		change func(f *Facts)
		want   []string
	}{
		{"all well", func(*Facts) {}, []string{"one healthy ", "three unconfigured missing_key", "two healthy "}},
		{"one circuit open", func(f *Facts) { f.Snapshot = []health.Status{open, closed} }, []string{"one degraded ", "three unconfigured missing_key", "two healthy "}},
		{"all circuits open", func(f *Facts) { f.Snapshot = []health.Status{open} }, []string{"one down breaker_open", "three unconfigured missing_key", "two healthy "}},
		{"it fails often", func(f *Facts) { f.Figures = []health.Figures{failing} }, []string{"one degraded ", "three unconfigured missing_key", "two healthy "}},
		{"pinned", func(f *Facts) { f.Override.Pin = &provider.Target{Provider: "two"} }, []string{"one healthy pinned_elsewhere", "three unconfigured missing_key", "two healthy "}},
		{"full", func(f *Facts) {
			f.Bulkheads = func(string) health.Bulkhead { return health.Bulkhead{InFlight: 10, Limit: 10} }
		}, []string{"one healthy bulkhead_full", "three unconfigured missing_key", "two healthy bulkhead_full"}},
		{"nobody chooses it", func(f *Facts) { f.HasKey = func(string) bool { return true } }, []string{"one healthy ", "three healthy not_in_the_policys_choice", "two healthy "}},
		{"unless as a canary", func(f *Facts) {
			f.HasKey, f.Override.Canary = func(string) bool { return true }, &steering.Canary{Target: provider.Target{Provider: "three"}}
		}, []string{"one healthy ", "three healthy ", "two healthy "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := facts(t, "one", "two")
			c.change(&f)
			var got []string
			for _, p := range Providers(f) {
				got = append(got, fmt.Sprint(p.Name, " ", p.Health, " ", p.NotSelectable))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	f := facts(t, "one", "two")
	f.Snapshot, f.Figures = []health.Status{open, closed}, []health.Figures{failing}
	p := Providers(f)[0]
	if p.Circuits[0].LastClass != "transient" || p.Circuits[1].LastClass != "" {
		t.Errorf("circuits %+v, want the last class transient for the first alone", p.Circuits)
	}
	if len(p.Ranking) == 0 || len(p.Models) != 1 {
		t.Errorf("%d ranks, %d models, want some and 1", len(p.Ranking), len(p.Models))
	}
	reports := ProviderReports(f.Snapshot, f.Figures)
	if len(reports) != 1 {
		t.Fatalf("%d reports, want 1", len(reports))
	}
	if r := reports[0]; r.Circuits != 2 || r.Open != 1 {
		t.Errorf("%d of %d circuits are open, want 1 of 2", r.Open, r.Circuits)
	}
	if r := reports[0]; r.RecentFailures != 4 || r.LastClass != "transient" {
		t.Errorf("%d recent failures, the last %q, want 4, transient", r.RecentFailures, r.LastClass)
	}
}

func TestAssess(t *testing.T) {
	pings := map[string]*Ping{Postgres: {State: Up, Latency: time.Millisecond}, Redis: {State: Up}, Spool: {State: Up}}
	ping := func(name string) *Ping { return pings[name] }
	f := facts(t, "one", "two")
	a := Assess(f, ping, nil, true)
	if a.Status != available {
		t.Errorf("%s", a.Status)
	}
	// Only one has vectors; a chat may go to two as well.
	if diff := cmp.Diff([]string{"postgres", "provider:one"}, a.Single()); diff != "" {
		t.Errorf("single points of failure (-want +got):\n%s", diff)
	}
	for _, d := range a.Dependencies {
		for field, value := range map[string]string{
			"purpose": d.Purpose, "impact": d.Impact, "state": string(d.State), "kind": d.Kind,
		} {
			if value == "" {
				t.Errorf("the dependency %s has no %s", d.Name, field)
			}
		}
	}
	for _, c := range []struct {
		name    string
		keys    []string
		change  func()
		vendors []Vendor
		ready   bool
		want    string
	}{
		{"redis away", []string{"one", "two"}, func() { pings[Redis] = &Ping{State: Down} }, nil, true, impaired},
		{"postgres away", []string{"one", "two"}, func() { pings[Postgres] = &Ping{State: Down} }, nil, true, impaired},
		{"a vendor that others stand in for", []string{"one", "two"}, func() {}, []Vendor{{Provider: "two", State: Down}}, true, impaired},
		{"the only vendor", []string{"one", "two"}, func() {}, []Vendor{{Provider: "one", State: Down}}, true, unavailable},
		{"a vendor without a key", []string{"one"}, func() {}, []Vendor{{Provider: "two", State: Down}}, true, available},
		{"not ready", []string{"one", "two"}, func() {}, nil, false, unavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			pings = map[string]*Ping{Postgres: {State: Up}, Redis: {State: Up}, Spool: {State: Up}}
			c.change()
			if got := Assess(facts(t, c.keys...), ping, c.vendors, c.ready); got.Status != c.want {
				t.Errorf("%s, want %s", got.Status, c.want)
			}
		})
	}
	f.PolicyProblem = "policy_refused"
	if got := Assess(f, ping, nil, true); got.Status != impaired || got.Dependencies[3].Name != "policy" || got.Dependencies[3].State != Degraded {
		t.Errorf("a policy that can't be followed: %s, %+v", got.Status, got.Dependencies[3])
	}
	f.PolicyProblem = ""
	delete(pings, Redis)
	for _, d := range Assess(f, ping, nil, true).Dependencies {
		if d.Name == Redis {
			t.Error("what is not configured is depended on")
		}
	}
}

// Since is when a provider's state began, even if it was not requested meanwhile.
func TestProvidersAreWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		keys := []string{"one"}
		base := facts(t)
		r := newReplica("a", "", nil, newReportStore())
		reporter := NewReporter(r.Monitor, func() Facts {
			mu.Lock()
			defer mu.Unlock()
			held, f := slices.Clone(keys), base
			f.HasKey = func(provider string) bool { return slices.Contains(held, provider) }
			return f
		})
		defer r.start(t)()
		time.Sleep(10*time.Second + time.Millisecond)
		mu.Lock()
		keys = []string{"one", "two"}
		mu.Unlock()
		time.Sleep(10 * time.Second)
		for _, p := range reporter.Providers() {
			since := time.Since(p.Since).Round(time.Second)
			if p.Name == "two" {
				if since > 10*time.Second {
					t.Errorf("two is %s since %s, want at most 10s", p.Health, since)
				}
			} else if since < 20*time.Second {
				t.Errorf("%s is %s since %s, want at least 20s", p.Name, p.Health, since)
			}
		}
	})
}
