package quota

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// running returns Books that run until the test ends, once they are trusted.
func running(t *testing.T, o Options) *Books {
	t.Helper()
	o.Log = slog.New(slog.DiscardHandler)
	b := New(o)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
	return b
}

func claim(s Subject, l Limit, tokens int64) []Claim { return []Claim{{s, l, tokens}} }

// must reserves without waiting.
func must(t *testing.T, b *Books, claims []Claim) *Reservation {
	t.Helper()
	r, err := b.TryReserve(t.Context(), Demand{Claims: claims})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// refused fails the test unless a demand is refused with a cause, and returns the refusal.
func refused(t *testing.T, b *Books, d Demand, cause Cause) *RefusedError {
	t.Helper()
	r, err := b.Reserve(t.Context(), d)
	var refusal *RefusedError
	if !errors.As(err, &refusal) || r != nil {
		t.Fatalf("%v, %v, want it refused", r, err)
	}
	if refusal.Cause != cause {
		t.Fatalf("refused for %q (%v), want %q", refusal.Cause, err, cause)
	}
	return refusal
}

func (b *Books) booked(s Subject) Amount {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.accounts[s].own.used(b.now().Unix())
}

func TestSettle(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*Reservation)
		want Amount
	}{
		"in flight": {func(*Reservation) {}, Amount{600, 1}},
		"less":      {func(r *Reservation) { r.Settle(100) }, Amount{100, 1}},
		"more":      {func(r *Reservation) { r.Settle(5000) }, Amount{5000, 1}},
		"twice":     {func(r *Reservation) { r.Settle(100); r.Settle(100); r.Cancel() }, Amount{100, 1}},
		"negative":  {func(r *Reservation) { r.Settle(-1) }, Amount{0, 1}},
		"cancelled": {func(r *Reservation) { r.Cancel(); r.Settle(100) }, Amount{}},
		"each":      {func(r *Reservation) { r.SettleEach(func(s Subject) int64 { return int64(len(s)) }) }, Amount{3, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := running(t, Options{})
				r := must(t, b, claim("x/1", Limit{Tokens: 1000}, 600))
				time.Sleep(10 * time.Second)
				c.end(r)
				if got := b.booked("x/1"); got != c.want {
					t.Errorf("%+v, want %+v", got, c.want)
				}
				time.Sleep(time.Second)
				if c.want.Tokens == 0 {
					must(t, b, claim("x/1", Limit{Tokens: 1000}, 1000))
					return
				}
				refusal := refused(t, b, Demand{Claims: claim("x/1", Limit{Tokens: 1000}, 1000)}, CauseLimit)
				if want := 50 * time.Second; refusal.RetryAfter != want {
					t.Errorf("retry after %v, want %v: corrections belong to the second of the call", refusal.RetryAfter, want)
				}
			})
		})
	}
}

// The caller's own claims outlive a call that failed, and those of the call that follows add nothing to them.
func TestSplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := running(t, Options{})
		d := Demand{
			Claims:       []Claim{{"organization/1", Limit{Tokens: 1000, Concurrent: 1}, 600}},
			Alternatives: [][]Claim{{{"credential/1", Limit{Tokens: 1000}, 600}}},
		}
		r, err := b.TryReserve(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		own := r.Split()
		r.Settle(10)
		time.Sleep(2 * time.Minute) // Calls in flight are renewed.
		refused(t, b, Demand{Claims: d.Claims}, CauseConcurrent)
		second, err := b.TryReserve(t.Context(), Demand{Alternatives: d.Alternatives})
		if err != nil {
			t.Fatal(err)
		}
		second.Settle(20)
		own.Settle(30)
		own.Settle(40)
		time.Sleep(time.Second)
		if got := b.booked("credential/1"); got != (Amount{20, 1}) {
			t.Errorf("the credential has %+v booked", got)
		}
		must(t, b, d.Claims).Cancel()
	})
	if r := unlimited.Split(); r != unlimited {
		t.Errorf("%+v", r)
	}
}

// A call that is settled after its minute changes nothing.
func TestSettleLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := running(t, Options{})
		r := must(t, b, claim("x/1", Limit{Tokens: 1000}, 600))
		time.Sleep(61 * time.Second)
		must(t, b, claim("x/1", Limit{Tokens: 1000}, 1000))
		r.Settle(900)
		if got := b.booked("x/1"); got != (Amount{1000, 1}) {
			t.Errorf("%+v are booked", got)
		}
	})
}

// What counts on completion counts in flight, and for a minute after it has ended.
func TestCountCompletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := running(t, Options{})
		limit := Limit{Tokens: 1000, Counting: CountCompletion}
		r := must(t, b, claim("x/1", limit, 600))
		time.Sleep(5 * time.Minute)
		refused(t, b, Demand{Claims: claim("x/1", limit, 401)}, CauseLimit)
		r.Settle(500)
		time.Sleep(59 * time.Second)
		refused(t, b, Demand{Claims: claim("x/1", limit, 501)}, CauseLimit)
		time.Sleep(2 * time.Second)
		must(t, b, claim("x/1", limit, 1000))
	})
}

func TestConcurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := running(t, Options{})
		claims := claim("x/1", Limit{Concurrent: 2}, 0)
		first := must(t, b, claims)
		must(t, b, claims)
		time.Sleep(5 * time.Minute) // Calls in flight are renewed.
		refused(t, b, Demand{Claims: claims}, CauseConcurrent)
		first.Settle(0)
		time.Sleep(time.Second)
		must(t, b, claims)
	})
}

// The calls of a replica that was killed end by themselves.
func TestConcurrentAfterKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &network{Memory: &Memory{}}
		var group sync.WaitGroup
		killed, other := launch(t, &group, store, "a"), launch(t, &group, store, "b")
		time.Sleep(5 * time.Second)
		claims := claim("x/1", Limit{Concurrent: 1}, 0)
		must(t, killed.Books, claims)
		refused(t, other.Books, Demand{Claims: claims}, CauseConcurrent)
		killed.stop()
		time.Sleep(holdTime + 2*time.Second)
		must(t, other.Books, claims)
		other.stop()
		group.Wait()
	})
}

func TestTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := running(t, Options{})
		large, fits := claim("x/1", Limit{Tokens: 1000}, 1001), claim("x/2", Limit{Tokens: 2000}, 1001)
		refusal := refused(t, b, Demand{Queue: "q", Wait: time.Hour, Claims: large}, CauseTooLarge)
		if refusal.Subject.Kind() != "x" || refusal.RetryAfter != 0 {
			t.Errorf("%+v, want subject x and no time to retry", refusal)
		}
		r, err := b.Reserve(t.Context(), Demand{Alternatives: [][]Claim{large, fits}})
		if err != nil || r.Alternative() != 1 {
			t.Errorf("%v, %v, want the one that is large enough", r, err)
		}
	})
}

func TestMalformedDemands(t *testing.T) {
	l := Limit{Tokens: 1}
	for name, d := range map[string]Demand{
		"no subject":     {Claims: claim("", l, 1)},
		"a long subject": {Claims: claim(Subject(strings.Repeat("x", maxSubject+1)), l, 1)},
		"negative":       {Claims: claim("x", l, -1)},
		"a huge claim":   {Claims: claim("x", l, maxTokens+1)},
		"a huge limit":   {Claims: claim("x", Limit{Requests: maxTokens + 1}, 1)},
		"concurrent":     {Claims: claim("x", Limit{Concurrent: -1}, 1)},
		"twice":          {Claims: append(claim("x", l, 1), claim("x", l, 1)...)},
		"own and shared": {Claims: claim("x", l, 1), Alternatives: [][]Claim{claim("x", l, 1)}},
		"many":           {Claims: make([]Claim, 9), Alternatives: [][]Claim{claim("x", l, 1)}},
		"alternatives":   {Alternatives: append(make([][]Claim, maxAlternatives), claim("x", l, 1)), Claims: claim("y", l, 1)},
		"weight":         {Weight: maxWeight + 1, Claims: claim("x", l, 1)},
		"queue":          {Queue: strings.Repeat("x", maxSubject+1), Claims: claim("x", l, 1)},
	} {
		if name == "many" {
			for i := range d.Claims {
				d.Claims[i] = Claim{Subject(fmt.Sprint(i)), l, 1}
			}
		}
		if r, err := New(Options{}).Reserve(t.Context(), d); !errors.Is(err, errDemand) || r != nil {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
}

// Names that callers make up take the place of nothing that counts.
func TestSubjectsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := running(t, Options{MaxSubjects: 100})
		for i := range 100 {
			must(t, b, claim(Subject(fmt.Sprint("x/", i)), Limit{Tokens: 10}, 5)).Settle(5)
		}
		refused(t, b, Demand{Claims: claim("x/new", Limit{Tokens: 10}, 5)}, CauseSubjects)
		refused(t, b, Demand{Claims: claim("x/7", Limit{Tokens: 10}, 6)}, CauseLimit)
		time.Sleep(62 * time.Second)
		b.mu.Lock()
		left := len(b.accounts)
		b.mu.Unlock()
		if left > 0 {
			t.Errorf("%d accounts with nothing in them are kept", left)
		}
		must(t, b, claim("x/new", Limit{Tokens: 10}, 5))
	})
}

// Small calls are booked from a lease, without the store.
func TestLeasesSaveRoundTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &network{Memory: &Memory{}}
		b := running(t, Options{Store: store})
		time.Sleep(3 * time.Second)
		store.mu.Lock()
		before := store.calls
		store.mu.Unlock()
		claims := claim("x/1", Limit{Tokens: 1_000_000}, 10)
		begun, calls := time.Now(), 0
		for time.Since(begun) < 10*time.Second {
			must(t, b, claims).Settle(10)
			calls++
			time.Sleep(5 * time.Millisecond)
		}
		store.mu.Lock()
		asked := store.calls - before
		store.mu.Unlock()
		if asked*10 > calls {
			t.Errorf("%d calls of the store for %d calls", asked, calls)
		}
		time.Sleep(2 * time.Second)
		all, _, err := store.Memory.Snapshots(t.Context(), b.epoch, []Subject{"x/1"})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := all[0].Window.sum, (Amount{int64(calls) * 10, int64(calls)}); got != want {
			t.Errorf("%+v are booked after all leases have ended, want %+v", got, want)
		}
	})
}

// A vendor that refuses is passed over at once, before the store knows; so is what is out of reach without a store.
func TestAlternativesThatAreShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &network{Memory: &Memory{}}
		b := running(t, Options{Store: store})
		d := Demand{Alternatives: [][]Claim{claim("x/1", Limit{Tokens: 1000}, 1), claim("x/2", Limit{}, 1)}}
		if r, err := b.Reserve(t.Context(), d); err != nil || r.Alternative() != 1 {
			t.Errorf("%v, %v before the store was reached, want the one without a limit", r, err)
		}
		time.Sleep(3 * time.Second)
		d.Alternatives[1] = claim("x/2", Limit{Tokens: 1000}, 1)
		if r, err := b.Reserve(t.Context(), d); err != nil || r.Alternative() != 0 {
			t.Errorf("%v, %v, want the first", r, err)
		}
		b.Exhausted("x/1", time.Minute)
		if r, err := b.Reserve(t.Context(), d); err != nil || r.Alternative() != 1 {
			t.Errorf("%v, %v after a refusal, want the second", r, err)
		}
		b.Exhausted("x/2", 10*time.Second)
		if r := refused(t, b, d, CauseVendor); r.RetryAfter != 10*time.Second || r.Subject != "x/2" {
			t.Errorf("%+v, want the one that is back first", r)
		}
	})
}

func TestLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := running(t, Options{})
		if got := b.Load("x/1"); got != (Load{Free: 1}) {
			t.Errorf("%+v of a new subject", got)
		}
		r := must(t, b, claim("x/1", Limit{Tokens: 1000, Requests: 4}, 500))
		if got := b.Load("x/1"); got != (Load{Free: 0.5, InFlight: 0.5}) {
			t.Errorf("%+v, want a half free and in flight", got)
		}
		r.Settle(100)
		if got := b.Load("x/1"); got != (Load{Free: 0.75}) {
			t.Errorf("%+v, want the requests' 0.75 free", got)
		}
	})
}
