package delivery_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/netguard"
	"switchyard.dev/services/webhook-egress/internal/delivery"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a store and a dispatcher in one.
type memory struct {
	delivery.Store // what a test does not use

	mu       sync.Mutex
	drafts   []*delivery.Draft
	sent     []delivery.Job
	waiting  int
	returned int
	refuse   bool   // reserves nothing
	poison   string // event type that the store rejects as rejects says
	rejects  func() error
	err      error
}

func (m *memory) Enqueue(_ context.Context, drafts []*delivery.Draft, lease delivery.Lease) ([]delivery.Stored, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	stored := make([]delivery.Stored, len(drafts))
	for i, d := range drafts {
		stored[i] = delivery.Stored{ID: d.ID, Status: delivery.StatusQueued, Flow: delivery.Flow{ID: 1, Organization: d.Organization}}
		if lease.Reserve(stored[i].Flow, 1) {
			stored[i].LeaseSeq = 1
		}
	}
	for _, d := range drafts {
		if m.poison != "" && d.EventType == m.poison {
			return nil, m.rejects()
		}
	}
	if m.err != nil {
		return nil, m.err
	}
	m.drafts = append(m.drafts, drafts...)
	return stored, nil
}

func (m *memory) Get(context.Context, string, string, delivery.ID, bool) (delivery.Record, error) {
	return delivery.Record{}, nil
}

func (m *memory) Attempts(context.Context, delivery.ID, int64, int) ([]delivery.Attempt, int64, error) {
	return nil, 0, nil
}

func (m *memory) Lease() delivery.Lease {
	return delivery.Lease{Replica: 1, Duration: time.Second, Reserve: func(delivery.Flow, int) bool { return !m.refuse }}
}

func (m *memory) Send(job delivery.Job) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sent = append(m.sent, job)
}
func (m *memory) Return(delivery.Flow, int) { m.mu.Lock(); defer m.mu.Unlock(); m.returned++ }
func (m *memory) Waiting()                  { m.mu.Lock(); defer m.mu.Unlock(); m.waiting++ }

type plainSealer struct{}

func (plainSealer) Seal(text []byte, owner string) []byte {
	return append([]byte("sealed for "+owner+" of "), byte(len(text)))
}

func clock() time.Time { return now }

func newService(t *testing.T, m *memory, change func(*delivery.Options)) *delivery.Service {
	t.Helper()
	guard, err := netguard.New(netguard.Options{AllowTargets: []string{"127.0.0.1:9000"}})
	if err != nil {
		t.Fatal(err)
	}
	o := delivery.Options{
		Store: m, Dispatcher: m, Targets: delivery.NewTargets(guard, clock), SigningMode: "org_timestamp", Now: clock,
		Intake: delivery.Intake{Sealer: plainSealer{}, MaxAttempts: 12},
	}
	if change != nil {
		change(&o)
	}
	s := delivery.NewService(o)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	return s
}

func request() delivery.Request {
	return delivery.Request{
		Organization: "acme", URL: "http://127.0.0.1:9000/hook", EventType: "order.paid", Payload: []byte(`{"a": 1}`),
	}
}

func TestAccepted(t *testing.T) {
	m := &memory{}
	s := newService(t, m, nil)
	r := request()
	r.Payload = []byte("{\n  \"b\": 1, \"a\": 12345678901234567890}")
	r.Headers = map[string]string{"x-custom": "v", "Authorization": "Bearer abc"}
	r.MaxAttempts = new(99)
	accepted, err := s.Enqueue(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	d := m.drafts[0]
	if string(d.Body) != string(r.Payload) {
		t.Errorf("body = %q, want the bytes as they came", d.Body)
	}
	if diff := cmp.Diff(map[string]string{"X-Custom": "v"}, d.Headers); diff != "" {
		t.Errorf("plain headers (-want +got):\n%s", diff)
	}
	if !strings.HasPrefix(string(d.Sealed), "sealed for "+d.ID.String()) {
		t.Errorf("sealed = %q", d.Sealed)
	}
	if d.MaxAttempts != 20 || d.Target != (delivery.Target{Organization: "acme", Scheme: "http", Host: "127.0.0.1", Port: 9000, Path: d.Target.Path}) || d.Target.Path == (delivery.PathID{}) {
		t.Errorf("draft = %+v", d)
	}
	if accepted.ID != d.ID {
		t.Errorf("accepted %s, stored %s", accepted.ID, d.ID)
	}
	if at := accepted.ID.Time(); !at.Equal(now) {
		t.Errorf("the id's time is %s, want %s", at, now)
	}
	if len(m.sent) != 1 || m.sent[0].LeaseSeq != 1 {
		t.Errorf("sent %+v, want one job of lease 1", m.sent)
	}
}

func TestMaxAttemptsAreClamped(t *testing.T) {
	m := &memory{}
	s := newService(t, m, nil)
	for _, tt := range []struct {
		asked *int
		want  int
	}{{nil, 12}, {new(0), 1}, {new(-3), 1}, {new(1), 1}, {new(20), 20}, {new(21), 20}} {
		r := request()
		r.MaxAttempts = tt.asked
		if _, err := s.Enqueue(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if got := m.drafts[len(m.drafts)-1].MaxAttempts; got != tt.want {
			t.Errorf("%v became %d, want %d", tt.asked, got, tt.want)
		}
	}
}

func TestSpacesDontCount(t *testing.T) {
	m := &memory{}
	s := newService(t, m, nil)
	r := request()
	r.Payload = []byte(`{"a":1` + strings.Repeat(" ", delivery.MaxPayload) + `}`)
	if _, err := s.Enqueue(t.Context(), r); err != nil {
		t.Errorf("err = %v", err)
	}
}

func testOneBadDraft(t *testing.T, refuse func() error, want error) {
	t.Helper()
	m := &memory{poison: "bad", rejects: refuse}
	s := newService(t, m, nil)
	var wg sync.WaitGroup
	errs := make([]error, 50)
	for i := range errs {
		wg.Go(func() {
			r := request()
			if i == 17 {
				r.EventType = "bad"
			}
			_, errs[i] = s.Enqueue(t.Context(), r)
		})
	}
	wg.Wait()
	for i, err := range errs {
		if (err != nil) != (i == 17) || (err != nil && !errors.Is(err, want)) {
			t.Errorf("request %d: %v", i, err)
		}
	}
	if len(m.sent) != 49 || m.returned == 0 {
		t.Errorf("sent %d, slots returned %d", len(m.sent), m.returned)
	}
}

func TestStoreFails(t *testing.T) {
	m := &memory{err: apierr.Unavailable("away", nil)}
	s := newService(t, m, nil)
	_, err := s.Enqueue(t.Context(), request())
	if apierr.From(err).Kind != apierr.KindUnavailable || m.returned != 1 || len(m.sent) != 0 {
		t.Errorf("err %v, returned %d, sent %d", err, m.returned, len(m.sent))
	}
}

func TestFingerprint(t *testing.T) {
	m := &memory{}
	s := newService(t, m, nil)
	changes := map[string]func(*delivery.Request){
		"same":    func(*delivery.Request) {},
		"payload": func(r *delivery.Request) { r.Payload = []byte(`{"a":2}`) },
		"url":     func(r *delivery.Request) { r.URL += "/x" },
		"owner":   func(r *delivery.Request) { r.Owner = "ann" },
		"event":   func(r *delivery.Request) { r.EventType = "order.paidx" },
		"header":  func(r *delivery.Request) { r.Headers = map[string]string{"X-A": "b"} },
		"value":   func(r *delivery.Request) { r.Headers = map[string]string{"X-A": "c"} },
		"tries":   func(r *delivery.Request) { r.MaxAttempts = new(3) },
		"moment":  func(r *delivery.Request) { r.Deadline = time.Now().Add(time.Hour) },
		"later":   func(r *delivery.Request) { r.Deadline = time.Now().Add(2 * time.Hour) },
		"order":   func(r *delivery.Request) { r.OrderingKey = "k" },
		"like":    func(r *delivery.Request) { r.Headers = map[string]string{"max_attempts": "3"} },
	}
	prints := map[[32]byte][]string{}
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		r := request()
		r.Key = name // no part of it
		changes[name](&r)
		if _, err := s.Enqueue(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		print := m.drafts[len(m.drafts)-1].Fingerprint
		prints[print] = append(prints[print], name)
	}
	if len(prints) != len(changes) {
		t.Errorf("fingerprints coincide: %v", prints)
	}
}

func TestID(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := time.UnixMilli(rapid.Int64Range(0, 1<<48-1).Draw(t, "ms")).UTC()
		id := delivery.NewID(at)
		back, err := delivery.ParseID(id.String())
		if err != nil || back != id || !id.Time().Equal(at) {
			t.Fatalf("%v of %v: %v, %v, %v", id, at, back, id.Time(), err)
		}
	})
	for _, bad := range []string{
		"", "x", "01a1fdad-35c8-7e9e-9ec0-fba81c7c400", "01a1fdad-35c8-7e9e-9ec0-fba81c7c40011",
		"01a1fdad-35c8-4e9e-9ec0-fba81c7c4001", "01a1fdad-35c8-7e9e-1ec0-fba81c7c4001", "01a1fdadx35c8-7e9e-9ec0-fba81c7c4001",
		"01a1fdad-35c8-7e9e-9ec0-fba81c7c40zz",
	} {
		if _, err := delivery.ParseID(bad); err == nil {
			t.Errorf("%q was taken as an id", bad)
		}
	}
}

func TestText(t *testing.T) {
	for in, want := range map[string]string{"": "", "abc": "abc", "abcdef": "abcd", "abc\xc3\xa4": "abc", "a\x00b": "a?b", "a\xffb": "a?b"} {
		if got := delivery.Text(in, 4); got != want {
			t.Errorf("Text(%q) = %q, want %q", in, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		got := delivery.Text(string(rapid.SliceOf(rapid.Byte()).Draw(t, "in")), 8)
		if strings.ContainsRune(got, 0) || got != strings.ToValidUTF8(got, "") || len(got) > 8 {
			t.Fatalf("%q", got)
		}
	})
}
