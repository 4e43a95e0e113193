package redis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"switchyard.dev/services/gateway/internal/capacity/quota"
	"switchyard.dev/services/gateway/internal/capacity/quota/quotatest"
	"switchyard.dev/services/platform/redisdb"
	"switchyard.dev/services/platform/testkit"
)

func TestQuotas(t *testing.T) {
	quotatest.Run(t, func(t *testing.T) (quota.Store, func()) {
		t.Helper()
		client := testkit.Redis(t)
		return NewQuotas(client), func() {
			t.Helper()
			keys := client.Keys(t.Context(), client.Prefix+":*").Val()
			if err := client.Del(t.Context(), keys...).Err(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Books that another run of the server wrote, or that no replica has written to for a while, are not trusted.
func TestQuotaBooksOfThePast(t *testing.T) {
	for name, past := range map[string][]any{"another run": {"run", "another"}, "silence": {"beat", 1}} {
		t.Run(name, func(t *testing.T) {
			client := testkit.Redis(t)
			store := NewQuotas(client)
			report := quota.Report{Replica: "a", Candidate: "first"}
			v, err := store.Exchange(t.Context(), report)
			if err != nil || v.Epoch != "first" {
				t.Fatalf("%+v, %v", v, err)
			}
			if err := client.HSet(t.Context(), client.Key("quota", "epoch"), past...).Err(); err != nil {
				t.Fatal(err)
			}
			report.Candidate = "second"
			if v, err = store.Exchange(t.Context(), report); err != nil || v.Epoch != "second" || v.Trusted {
				t.Errorf("%+v, %v, want a second epoch that is not trusted", v, err)
			}
		})
	}
}

func FuzzGrantOf(f *testing.F) {
	f.Add(`{"alternative":0,"served":1.5,"reached":0,"leases":[1],"used":[[1,2],null]}`)
	f.Add(`{"alternative":-1,"short":[{"cause":"limit","booking":0,"wait":12}]}`)
	f.Add(`{"alternative":-1,"short":[{"cause":"order","booking":-1,"wait":100}],"used":[[1]]}`)
	f.Add(`{"alternative":7}`)
	request := quota.Request{Alternatives: [][]quota.Booking{make([]quota.Booking, 1), make([]quota.Booking, 2)}}
	f.Fuzz(func(t *testing.T, text string) {
		g, err := grantOf(request, []string{"1", "2", text})
		if err != nil {
			return
		}
		if g.Alternative >= 0 && len(g.Leases) != len(request.Alternatives[g.Alternative]) {
			t.Errorf("%d leases of alternative %d", len(g.Leases), g.Alternative)
		}
		if g.Alternative < 0 && len(g.Short) == 0 {
			t.Error("a refusal without a reason")
		}
		for i, s := range g.Short {
			if s.Booking >= len(request.Alternatives[i]) {
				t.Errorf("alternative %d lacks booking %d", i, s.Booking)
			}
		}
	})
}

// What random requests and reports do to the books in Redis is what they do to those in memory. What vendors say fades with
// the time, and so is only in the conformance suite.
func TestQuotasAgreeWithMemory(t *testing.T) {
	stores := [2]quota.Store{NewQuotas(testkit.Redis(t)), &quota.Memory{}}
	var epochs [2]string
	testkit.Wait(t, "both are trusted", func() error {
		for i, s := range stores {
			v, err := s.Exchange(t.Context(), quota.Report{Replica: "a", Epoch: epochs[i], Candidate: "first", Replayed: true})
			if epochs[i] = v.Epoch; err != nil || !v.Trusted {
				return fmt.Errorf("store %d: trusted %t, %w", i, v.Trusted, err)
			}
		}
		return nil
	})
	random := rand.New(rand.NewPCG(1, 2))
	subject := func() quota.Subject { return quota.Subject("x/" + strconv.Itoa(random.IntN(5))) }
	limits := []quota.Limit{{Tokens: 20_000}, {Requests: 300}, {Tokens: 40_000, Requests: 500, Concurrent: 40}, {Concurrent: 20}}
	for step := range int64(1500) {
		if step%10 == 9 {
			report := quota.Report{Replica: "a", Epoch: epochs[0], Sequence: step}
			age := random.Int64N(40) // The clock ticks between the two: nothing is as old as the window.
			if random.IntN(8) == 0 {
				age += 65 // Surely beyond it.
			}
			slot := time.Now().Unix() - age
			report.Entries = []quota.Entry{{Subject: subject(), Slot: slot, Amount: quota.Amount{Tokens: random.Int64N(400) - 200, Requests: random.Int64N(3) - 1}}}
			report.Holds = []quota.Hold{{Subject: subject(), ID: strconv.FormatInt(random.Int64N(step), 10)}}
			report.Served = []quota.Served{{Queue: "q", Organization: strconv.Itoa(random.IntN(4)), Cost: float64(random.IntN(100) - 50)}}
			for _, s := range stores {
				if _, err := s.Exchange(t.Context(), report); err != nil {
					t.Fatal(err)
				}
			}
			continue
		}
		request := quota.Request{
			Epoch: epochs[0], Replica: "a", ID: strconv.FormatInt(step, 10), Hold: time.Hour,
			Place: &quota.Place{Queue: "q", Organization: strconv.Itoa(random.IntN(4)), Cost: float64(random.IntN(50)), Joins: random.IntN(5) == 0, Next: -1},
		}
		for range 1 + random.IntN(3) {
			b := quota.Booking{Claim: quota.Claim{Subject: subject(), Limit: limits[random.IntN(len(limits))], Tokens: random.Int64N(300)}}
			b.Lease = quota.Amount{Tokens: random.Int64N(50), Requests: random.Int64N(2)}
			b.Steady = random.IntN(2) == 0
			request.Alternatives = append(request.Alternatives, []quota.Booking{b})
		}
		var grants [2]quota.Grant
		for i, s := range stores {
			var err error
			if grants[i], err = s.Reserve(t.Context(), request); err != nil {
				t.Fatal(err)
			}
			grants[i].Now = time.Time{}
			for j := range grants[i].Short {
				grants[i].Short[j].Wait = grants[i].Short[j].Wait.Round(2 * time.Second) // The clock ticks between the two.
			}
		}
		near := cmp.Comparer(func(a, b time.Duration) bool { return (a - b).Abs() <= 2*time.Second })
		if diff := cmp.Diff(grants[1], grants[0], near, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("step %d (-memory +redis):\n%s", step, diff)
		}
	}
}

// member is a replica's books behind a cable.
type member struct {
	*quota.Books

	cable   *testkit.Cable
	granted int64
}

func members(t *testing.T, direct *redisdb.Client, n int) []*member {
	t.Helper()
	all := make([]*member, n)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var group sync.WaitGroup
	t.Cleanup(func() { cancel(); group.Wait() })
	for i := range all {
		cable := testkit.NewCable(t, "redis://"+direct.Options().Addr)
		client, err := redisdb.Open(t.Context(), redisdb.Options{URL: cable.URL, Prefix: direct.Prefix})
		if err != nil {
			t.Fatal(err)
		}
		m := &member{Books: quota.New(quota.Options{Store: NewQuotas(client), Log: testkit.Logger(t)}), cable: cable}
		group.Go(func() {
			if err := m.Run(ctx); err != nil {
				t.Errorf("Run = %v", err)
			}
		})
		t.Cleanup(func() { _ = client.Close() })
		all[i] = m
	}
	return all
}

// use lets all members reserve until what they were granted in all reaches a sum, or nothing more is granted for a
// while. It returns the sum.
func use(t *testing.T, all []*member, limit, upTo int64, patience time.Duration) (sum int64) {
	t.Helper()
	last := time.Now()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for i := 0; sum < upTo && time.Since(last) < patience; i++ {
		m := all[i%len(all)]
		tokens := int64(1 + i%700)
		d := quota.Demand{Alternatives: [][]quota.Claim{{{Subject: "credential/1", Limit: quota.Limit{Tokens: limit}, Tokens: tokens}}}}
		var refusal *quota.RefusedError
		switch _, err := m.TryReserve(t.Context(), d); {
		case err == nil:
			m.granted += tokens
			last = time.Now()
		case !errors.As(err, &refusal):
			t.Fatal(err)
		default:
			<-ticker.C
		}
		sum = 0
		for _, m := range all {
			sum += m.granted
		}
	}
	return sum
}

// Replicas that lose their books, and then the server, grant no more than the limit within the minute, and not much
// less.
func TestQuotasThroughLossAndOutage(t *testing.T) {
	direct := testkit.Redis(t)
	all := members(t, direct, 3)
	const limit = 300_000
	steps := []struct {
		name        string
		do          func()
		upTo, least int64
	}{
		{"shared", func() {}, limit * 3 / 10, limit * 3 / 10},
		{"the books are lost", func() {
			if err := direct.Del(t.Context(), direct.Keys(t.Context(), direct.Prefix+":*").Val()...).Err(); err != nil {
				t.Fatal(err)
			}
		}, limit * 6 / 10, limit * 6 / 10},
		{"the server is away", func() {
			for _, m := range all {
				m.cable.Cut()
			}
		}, limit * 8 / 10, limit * 8 / 10},
		{"the server is back", func() {
			for _, m := range all {
				m.cable.Mend()
			}
		}, 2 * limit, limit * 98 / 100},
	}
	begun := time.Now()
	for _, s := range steps {
		s.do()
		got := use(t, all, limit, s.upTo, 5*time.Second)
		t.Logf("%s: %d of %d after %s", s.name, got, limit, time.Since(begun).Round(time.Millisecond))
		if got < s.least || got > limit*102/100 {
			t.Errorf("%s: %d of %d were granted, want %d to %d", s.name, got, limit, s.least, limit*102/100)
		}
	}
	if took := time.Since(begun); took > time.Minute {
		t.Skipf("it took %s: what was granted at first has aged out", took)
	}
}

// All keys expire by themselves.
func TestQuotaKeysExpire(t *testing.T) {
	direct := testkit.Redis(t)
	all := members(t, direct, 2)
	use(t, all, 100_000, 50_000, 10*time.Second)
	all[0].Exhausted("credential/1", time.Minute)
	d := quota.Demand{
		Queue: "q", Organization: "o", Wait: 100 * time.Millisecond, Claims: []quota.Claim{{Subject: "key/1", Limit: quota.Limit{Concurrent: 5}}},
		Alternatives: [][]quota.Claim{{{Subject: "credential/2", Limit: quota.Limit{Tokens: 1000}, Tokens: 900}}},
	}
	var keys []string
	testkit.Wait(t, "the queue's keys in the shared books", func() error { // A late replica books by itself.
		_, _ = all[1].Reserve(t.Context(), d)
		if keys = direct.Keys(t.Context(), direct.Prefix+":*").Val(); len(keys) < 8 {
			return fmt.Errorf("only %d keys: %q", len(keys), keys)
		}
		return nil
	})
	for _, key := range keys {
		if ttl := direct.PTTL(t.Context(), key).Val(); ttl <= 0 || ttl > 4*time.Minute {
			t.Errorf("%s lives for %s", key, ttl)
		}
	}
}

func BenchmarkQuotas(b *testing.B) {
	for _, alternatives := range []int{1, 8} {
		b.Run(strconv.Itoa(alternatives), func(b *testing.B) {
			store := NewQuotas(testkit.Redis(b))
			report := quota.Report{Replica: "a", Candidate: "first", Replayed: true}
			testkit.Wait(b, "the books are trusted", func() error {
				v, err := store.Exchange(b.Context(), report)
				if report.Epoch = v.Epoch; err != nil || !v.Trusted {
					return fmt.Errorf("trusted %t, %w", v.Trusted, err)
				}
				return nil
			})
			request := quota.Request{Epoch: report.Epoch, Replica: "a", ID: "1", Hold: time.Second}
			for i := range alternatives {
				request.Alternatives = append(request.Alternatives, []quota.Booking{
					{Claim: quota.Claim{Subject: "organization/acme/gpt-5", Limit: quota.Limit{Tokens: 1 << 39}, Tokens: 1}},
					{Claim: quota.Claim{Subject: quota.Subject("credential/" + strconv.Itoa(i)), Limit: quota.Limit{Tokens: 1 << 39}, Tokens: 1}},
				})
			}
			for i := 0; b.Loop(); i++ {
				if i%1000 == 0 {
					if _, err := store.Exchange(b.Context(), report); err != nil {
						b.Fatal(err)
					}
				}
				if g, err := store.Reserve(b.Context(), request); err != nil || g.Alternative != 0 {
					b.Fatal(g, err)
				}
			}
		})
	}
}
