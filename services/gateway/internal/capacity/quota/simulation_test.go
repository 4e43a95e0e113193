package quota

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errAway = errors.New("connection refused")

// network is a store that can be out of reach, with a round trip.
type network struct {
	*Memory

	mu    sync.Mutex
	away  bool
	calls int
}

func (n *network) set(away bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.away = away
}

func (n *network) trip(ctx context.Context) error {
	select {
	case <-time.After(300 * time.Microsecond):
	case <-ctx.Done():
		return ctx.Err()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls++
	if n.away {
		return errAway
	}
	return nil
}

func (n *network) Reserve(ctx context.Context, r Request) (Grant, error) {
	if err := n.trip(ctx); err != nil {
		return Grant{}, err
	}
	return n.Memory.Reserve(ctx, r)
}

func (n *network) Exchange(ctx context.Context, r Report) (View, error) {
	if err := n.trip(ctx); err != nil {
		return View{}, err
	}
	return n.Memory.Exchange(ctx, r)
}

func (n *network) Snapshots(ctx context.Context, epoch string, s []Subject) ([]Snapshot, time.Time, error) {
	if err := n.trip(ctx); err != nil {
		return nil, time.Time{}, err
	}
	return n.Memory.Snapshots(ctx, epoch, s)
}

// call is what a vendor saw.
type call struct {
	at     time.Time
	tokens int64
}

// worst returns the largest sum of any minute, by two pointers over the calls.
func worst(calls []call) (most int64) {
	slices.SortFunc(calls, func(a, b call) int { return a.at.Compare(b.at) })
	var sum int64
	oldest := 0
	for _, c := range calls {
		sum += c.tokens
		for !c.at.Before(calls[oldest].at.Add(time.Minute)) {
			sum -= calls[oldest].tokens
			oldest++
		}
		most = max(most, sum)
	}
	return most
}

// member is a replica that can be killed.
type member struct {
	*Books

	stop context.CancelFunc
	ctx  context.Context // the life of the replica
}

func launch(t *testing.T, group *sync.WaitGroup, store Store, name string) *member {
	t.Helper()
	b := New(Options{Store: store, Replica: name, Log: slog.New(slog.DiscardHandler)})
	ctx, stop := context.WithCancel(t.Context())
	group.Go(func() {
		if err := b.Run(ctx); err != nil {
			t.Errorf("Run = %v", err)
		}
	})
	return &member{b, stop, ctx}
}

type simulation struct {
	limit, vendors int64
	load           map[string]float64 // parts of the limit that organizations ask for
	length         time.Duration
	smallest, most int64
	events         func(s *fleet)
	least          float64 // the utilisation that is enough, if that is less than 0.95
}

// fleet is a simulation that runs.
type fleet struct {
	simulation

	t       *testing.T
	group   sync.WaitGroup
	net     *network
	mu      sync.Mutex
	members []*member
	calls   [][]call
	waits   map[string][]time.Duration
	served  map[string]int64
	refused map[string]int
	begun   time.Time
}

func (f *fleet) replace(i int, name string) {
	f.mu.Lock()
	old := f.members[i]
	f.mu.Unlock()
	old.stop()
	m := launch(f.t, &f.group, f.net, name)
	f.mu.Lock()
	f.members[i] = m
	f.mu.Unlock()
}

func (f *fleet) one(organization string, random *rand.Rand) {
	reserved := f.smallest + random.Int64N(f.most-f.smallest)
	actual := reserved - random.Int64N(reserved/2)
	latency := time.Duration(200+random.Int64N(2000)) * time.Millisecond
	f.mu.Lock()
	m := f.members[random.IntN(len(f.members))]
	f.mu.Unlock()
	d := Demand{Queue: "gpt-5", Organization: organization, Wait: 40 * time.Second}
	first := random.Int64N(f.vendors)
	for i := range f.vendors {
		name := Subject(fmt.Sprintf("credential/%d", (first+i)%f.vendors))
		d.Alternatives = append(d.Alternatives, []Claim{{name, Limit{Tokens: f.limit}, reserved}})
	}
	f.group.Go(func() {
		arrived := time.Now()
		r, err := m.Reserve(m.ctx, d)
		now := time.Now()
		f.mu.Lock()
		defer f.mu.Unlock()
		if err != nil {
			f.refused[organization]++
			return
		}
		v := (first + int64(r.Alternative())) % f.vendors
		f.calls[v] = append(f.calls[v], call{now, actual})
		if arrived.Sub(f.begun) > 90*time.Second {
			f.waits[organization] = append(f.waits[organization], now.Sub(arrived))
		}
		f.served[organization] += actual
		f.group.Go(func() {
			select {
			case <-time.After(latency):
				r.Settle(actual)
			case <-m.ctx.Done():
			}
		})
	})
}

func (s simulation) run(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{
		simulation: s, t: t, net: &network{Memory: &Memory{}}, calls: make([][]call, s.vendors), begun: time.Now(),
		waits: map[string][]time.Duration{}, served: map[string]int64{}, refused: map[string]int{},
	}
	for i := range 3 {
		f.members = append(f.members, launch(t, &f.group, f.net, fmt.Sprint("replica ", i)))
	}
	mean := float64(s.smallest+s.most) / 2 * 0.75
	seed := uint64(0)
	for organization, part := range s.load {
		seed++
		random := rand.New(rand.NewPCG(seed, 7))
		rate := part * float64(s.limit*s.vendors) / 60 / mean
		f.group.Go(func() {
			for time.Since(f.begun) < s.length {
				time.Sleep(time.Duration(random.ExpFloat64() / rate * float64(time.Second)))
				f.one(organization, random)
			}
		})
	}
	if s.events != nil {
		s.events(f)
	}
	time.Sleep(s.length - time.Since(f.begun))
	f.mu.Lock()
	for _, m := range f.members {
		m.stop()
	}
	f.mu.Unlock()
	f.group.Wait()
	return f
}

// report returns the largest part of the limit in any minute and the utilisation after the first minute.
func (f *fleet) report() (peak, used float64) {
	var sum int64
	for _, calls := range f.calls {
		peak = max(peak, float64(worst(calls))/float64(f.limit))
		for _, c := range calls {
			if c.at.Sub(f.begun) > 90*time.Second && c.at.Sub(f.begun) < f.length {
				sum += c.tokens
			}
		}
	}
	return peak, float64(sum) / float64(f.limit*f.vendors) / (f.length - 90*time.Second).Minutes()
}

// parts returns how much of the limit was used in each part of the time.
func (f *fleet) parts(length time.Duration) []float64 {
	all := make([]float64, f.length/length)
	for _, calls := range f.calls {
		for _, c := range calls {
			if i := int(c.at.Sub(f.begun) / length); i < len(all) {
				all[i] += float64(c.tokens) / float64(f.limit*f.vendors) / length.Minutes()
			}
		}
	}
	return all
}

// fair fails the test unless organizations got what is theirs, and waited accordingly.
//
// Those that ask for less than their part of the limit are served as if they were alone: the queue of one that offers
// load ρ of its part to a server of that rate is M/G/1, whose mean wait doubled, and two seconds for the pace and for
// the round of those that wait, bound the mean wait here. The others share the rest equally.
func (f *fleet) fair() {
	rest, busy := 1.0, 0
	for _, load := range f.load {
		if load > 1/float64(len(f.load))*1.5 {
			busy++
		} else {
			rest -= load
		}
	}
	mean := float64(f.smallest+f.most) / 2
	for organization, load := range f.load {
		part := rest / float64(busy)
		got := float64(f.served[organization]) / float64(f.limit*f.vendors) / f.length.Minutes()
		if load > part {
			if got < part*0.8 || got > part*1.25 {
				f.t.Errorf("%s got %.3f of the limit, want about %.3f", organization, got, part)
			}
			continue
		}
		var sum time.Duration
		for _, wait := range f.waits[organization] {
			sum += wait
		}
		rho := load / part
		rate := part * float64(f.limit*f.vendors) / 60
		bound := 2*time.Second + time.Duration(2*(rho/(1-rho)+1)*mean/rate*float64(time.Second))
		if average := sum / time.Duration(max(1, len(f.waits[organization]))); average > bound && f.least == 0 {
			f.t.Errorf("%s waited %v on average, want at most %v", organization, average, bound)
		}
	}
}

var sixOrganizations = map[string]float64{"a": 1.0, "b": 0.4, "c": 0.3, "d": 0.15, "e": 0.1, "f": 0.05}

func TestSimulation(t *testing.T) {
	for name, s := range map[string]simulation{
		"steady": {},
		"killed": {events: func(f *fleet) { time.Sleep(100 * time.Second); f.replace(1, "replica 3") }},
		"away": {events: func(f *fleet) {
			time.Sleep(100 * time.Second)
			f.net.set(true)
			time.Sleep(100 * time.Second)
			f.net.set(false)
		}},
		// What a replica granted that has died is in the books after they were lost.
		"killed, then lost": {events: func(f *fleet) {
			time.Sleep(80 * time.Second)
			f.replace(1, "replica 3")
			time.Sleep(20 * time.Second)
			f.net.set(true)
			time.Sleep(8 * time.Second)
			f.net.Lose()
			f.net.set(false)
		}},
		"restarted": {events: func(f *fleet) {
			time.Sleep(100 * time.Second)
			f.net.set(true)
			time.Sleep(5 * time.Second)
			f.net.Lose()
			f.net.set(false)
		}},
		"lost": {events: func(f *fleet) { time.Sleep(100 * time.Second); f.net.Lose() }},
		// A member that is gone with the books holds them up for a minute, in which its part is not used.
		"both": {least: 0.85, events: func(f *fleet) {
			time.Sleep(100 * time.Second)
			f.net.set(true)
			f.replace(0, "replica 3")
			time.Sleep(2 * time.Second)
			f.net.Lose()
			f.net.set(false)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s.limit, s.vendors, s.load, s.length, s.smallest, s.most = 600_000, 8, sixOrganizations, 5*time.Minute, 500, 8000
				f := s.run(t)
				peak, used := f.report()
				t.Logf("peak %.4f, used %.4f, %d calls of the store", peak, used, f.net.calls)
				for _, o := range []string{"a", "b", "c", "d", "e", "f"} {
					waits := f.waits[o]
					slices.Sort(waits)
					t.Logf("%s: served %d refused %d wait p50 %v p95 %v max %v", o, f.served[o], f.refused[o], waits[len(waits)/2], waits[len(waits)*95/100], waits[len(waits)-1])
				}
				if peak > 1.02 {
					t.Errorf("a minute saw %.4f of the limit", peak)
				}
				if used < cmp.Or(s.least, 0.95) {
					t.Errorf("%.4f of the limit were used", used)
				}
				f.fair()
				t.Logf("used in each 20 s: %.2f", f.parts(20*time.Second))
			})
		})
	}
}
