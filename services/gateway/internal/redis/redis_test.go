package redis

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/redisdb"
	"switchyard.dev/services/platform/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	target  = provider.Target{Provider: "acme", Model: "m"}
	circuit = health.Circuit{Provider: "acme", Family: "m"}
)

// A replica's reports reach all live replicas, with names of any kind unchanged.
func TestExchange(t *testing.T) {
	client := testkit.Redis(t)
	a, b := NewPeers(client), NewPeers(client)
	odd := health.Circuit{Provider: "two words", Family: "né/w\nline 100%+"}
	reports := []health.Report{
		{Circuit: circuit, Open: true, For: time.Minute, Age: 3 * time.Second},
		{Circuit: odd, Age: time.Second},
		{Circuit: circuit, Organization: 0xfedcba9876543210, Open: true, For: time.Minute, Age: time.Second},
		{Circuit: odd, Organization: 7, Age: 2 * time.Second},
		{Circuit: circuit, Open: true, For: 0}, // expired already
	}
	if _, err := a.Exchange(t.Context(), reports, false); err != nil {
		t.Fatal(err)
	}
	view, err := b.Exchange(t.Context(), nil, false)
	if err != nil {
		t.Fatal(err)
	}
	want := health.View{Self: b.replica, Replicas: 2, Reports: []health.Report{
		{Replica: a.replica, Circuit: circuit, Open: true, For: time.Minute, Age: 3 * time.Second},
		{Replica: a.replica, Circuit: odd, Age: time.Second},
		{Replica: a.replica, Circuit: circuit, Organization: 0xfedcba9876543210, Open: true, For: time.Minute, Age: time.Second},
		{Replica: a.replica, Circuit: odd, Organization: 7, Age: 2 * time.Second},
	}}
	near := cmp.Comparer(func(x, y time.Duration) bool { return (x - y).Abs() < 2*time.Second })
	if diff := cmp.Diff(want, view, near, cmpopts.IgnoreFields(health.Report{}, "For")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if left := view.Reports[0].For; left > time.Minute || left < 50*time.Second {
		t.Errorf("open for %s more", left)
	}
	for _, key := range []string{"replicas", "reports"} {
		if ttl := client.PTTL(t.Context(), client.Key("breaker", key)).Val(); ttl <= 0 || ttl > life {
			t.Errorf("%s lives for %s", key, ttl)
		}
	}
}

// A release that does not know reports about single organizations skips their lines.
func TestReportsOfAnOrganizationAreShortLines(t *testing.T) {
	line := encode([]health.Report{{Circuit: circuit, Organization: 7, Open: true, For: time.Minute}})
	if n := len(strings.Fields(line)); n >= 5 {
		t.Errorf("%q has %d fields, want fewer than five", line, n)
	}
}

// A replica that has not exchanged for its lifetime is removed with its reports.
func TestDeadReplicaIsForgotten(t *testing.T) {
	client := testkit.Redis(t)
	a, b := NewPeers(client), NewPeers(client)
	if _, err := a.Exchange(t.Context(), []health.Report{{Circuit: circuit, Open: true, For: time.Hour}}, false); err != nil {
		t.Fatal(err)
	}
	past := client.Time(t.Context()).Val().Add(-life - time.Millisecond).UnixMilli()
	if err := client.ZIncrBy(t.Context(), client.Key("breaker", "replicas"), float64(past)-client.ZScore(t.Context(), client.Key("breaker", "replicas"), a.replica).Val(), a.replica).Err(); err != nil {
		t.Fatal(err)
	}
	view, err := b.Exchange(t.Context(), nil, false)
	if err != nil || view.Replicas != 1 || len(view.Reports) != 0 {
		t.Errorf("view %+v, %v", view, err)
	}
	if client.HExists(t.Context(), client.Key("breaker", "reports"), a.replica).Val() {
		t.Error("its reports stay")
	}
}

// Reports of another version that can't be parsed are skipped without an error.
func FuzzDecode(f *testing.F) {
	f.Add("12\nacme m open 1 60000\n")
	f.Add("12\nacme m open 1 60000 more fields\nx\n%zz m open 1 1\n")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range decode("a", text) {
			if r.Replica != "a" || r.Open && r.For <= 0 {
				t.Errorf("report %+v", r)
			}
		}
	})
}

func TestLease(t *testing.T) {
	client := testkit.Redis(t)
	a, b := NewPeers(client), NewPeers(client)
	one, err1 := a.Lease(t.Context(), circuit, time.Minute)
	two, err2 := b.Lease(t.Context(), circuit, time.Minute)
	other, err3 := b.Lease(t.Context(), health.Circuit{Provider: "acme", Family: "n"}, time.Minute)
	for _, lease := range []struct {
		name      string
		got, want bool
		err       error
	}{{"the first", one, true, err1}, {"the same again", two, false, err2}, {"another circuit's", other, true, err3}} {
		if lease.err != nil || lease.got != lease.want {
			t.Errorf("%s lease: %t, %v, want %t", lease.name, lease.got, lease.err, lease.want)
		}
	}
	if ttl := client.PTTL(t.Context(), client.Key("breaker", "lease", "acme", "m")).Val(); ttl <= 0 || ttl > time.Minute {
		t.Errorf("the lease lives for %s", ttl)
	}
}

// replica returns a monitor with its own Peers.
type replica struct{ *health.Monitor }

func start(t *testing.T, client *redisdb.Client) replica {
	t.Helper()
	m := health.New(health.Options{Peers: NewPeers(client), Log: testkit.Logger(t)})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := m.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	r := replica{m}
	r.do(t, nil)
	return r
}

func (r replica) do(t *testing.T, e *provider.Error) *health.Refusal {
	t.Helper()
	p, refused := r.Acquire(t.Context(), health.Call{Target: target})
	switch {
	case refused != nil:
	case e != nil:
		p.Fail(t.Context(), e, false)
	default:
		p.End(t.Context(), health.Verdict{Outcome: health.Good})
	}
	return refused
}

func (r replica) trip(t *testing.T) {
	t.Helper()
	for range 6 {
		r.do(t, &provider.Error{Class: apierr.ClassServerError, Status: 500})
	}
	if r.phase() != health.Open {
		t.Fatal("it does not open")
	}
}

func (r replica) phase() health.Phase {
	for _, s := range r.Snapshot() {
		if s.Circuit == circuit {
			return s.Phase
		}
	}
	return -1
}

func (r replica) becomes(t *testing.T, want health.Phase) {
	t.Helper()
	eventually(t, "the circuit is "+want.String(), func() bool { return r.phase() == want })
}

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	late := time.After(10 * time.Second)
	for !holds() {
		select {
		case <-ticker.C:
		case <-late:
			t.Fatalf("not within ten seconds: %s", what)
		}
	}
}

// When two of three replicas see failures, the third follows them.
func TestReplicasFollow(t *testing.T) {
	client := testkit.Redis(t)
	a, b, c := start(t, client), start(t, client), start(t, client)
	eventually(t, "all three are there", func() bool {
		return client.ZCard(t.Context(), client.Key("breaker", "replicas")).Val() == 3
	})
	a.trip(t)
	b.trip(t)
	c.becomes(t, health.Open)
}

// While Redis is out of reach each replica decides alone; when it is back they agree again.
func TestRedisAwayAndBack(t *testing.T) {
	direct := testkit.Redis(t)
	cable := testkit.NewCable(t, "redis://"+direct.Options().Addr)
	clients := make([]*redisdb.Client, 3)
	replicas := make([]replica, 3)
	for i := range clients {
		var err error
		if clients[i], err = redisdb.Open(t.Context(), redisdb.Options{URL: cable.URL, Prefix: direct.Prefix}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = clients[i].Close() })
		replicas[i] = start(t, clients[i])
	}
	a, b, c := replicas[0], replicas[1], replicas[2]
	a.trip(t)
	b.trip(t)
	c.becomes(t, health.Open)

	cable.Cut()
	c.becomes(t, health.Closed)
	if refused := c.do(t, nil); refused != nil {
		t.Errorf("a call without Redis: %v", refused)
	}
	c.trip(t)

	cable.Mend()
	eventually(t, "the changes made meanwhile are reported", func() bool {
		text := direct.HVals(t.Context(), direct.Key("breaker", "reports")).Val()
		return strings.Count(strings.Join(text, ""), " open ") == 3
	})
}
