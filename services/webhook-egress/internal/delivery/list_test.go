package delivery_test

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/webhook-egress/internal/delivery"
)

func TestHostPattern(t *testing.T) {
	for _, tt := range []struct {
		host, url string
		want      bool
	}{
		{"example.com", "https://example.com/x", true},
		{"example.com", "http://example.com", true},
		{"example.com", "https://example.com:8443/x", true},
		{"Example.COM", "https://example.com?q", true},
		{"example.com", "https://example.com.evil.test/", false},
		{"example.com", "https://sub.example.com/", false},
		{"example.com", "https://evil.test/example.com", false},
		{"exampleXcom", "https://example.com/", false},
		{"example.com:443", "https://example.com/x", true},
		{"example.com:443", "https://example.com:443/x", true},
		{"example.com:443", "http://example.com:443/x", true},
		{"example.com:443", "http://example.com/x", false},
		{"example.com:80", "http://example.com/x", true},
		{"example.com:80", "https://example.com/x", false},
		{"example.com:8443", "https://example.com:8443/x", true},
		{"example.com:8443", "https://example.com/x", false},
		{"[2001:db8::1]", "https://[2001:db8::1]/x", true},
		{"[2001:db8::1]:8443", "https://[2001:db8::1]:8443/x", true},
		{".*", "https://example.com/", false},
		{"(", "https://example.com/", false},
	} {
		if got := regexp.MustCompile(delivery.HostPattern(tt.host)).MatchString(tt.url); got != tt.want {
			t.Errorf("%s matches %s: %t", tt.host, tt.url, got)
		}
	}
	if got := delivery.HostPattern(""); got != "" {
		t.Errorf("no host: %q", got)
	}
}

func FuzzHostPattern(f *testing.F) {
	f.Add("example.com:443")
	f.Add("[::1]")
	f.Fuzz(func(t *testing.T, host string) {
		if _, err := regexp.Compile(delivery.HostPattern(strings.ToValidUTF8(host, "?"))); err != nil {
			t.Errorf("%q: %v", host, err)
		}
	})
}

func TestFirstID(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_123)
	first := delivery.FirstID(at)
	before, same := delivery.NewID(at.Add(-time.Millisecond)), delivery.NewID(at)
	if string(before[:]) >= string(first[:]) || string(same[:]) < string(first[:]) {
		t.Errorf("%s is not between %s and %s", first, before, same)
	}
	if later := delivery.FirstID(at.Add(1)); later.Time() != at.Add(time.Millisecond).UTC() {
		t.Errorf("a nanosecond later: %s", later.Time())
	}
	if old := delivery.FirstID(time.Time{}); old != (delivery.ID{}) {
		t.Errorf("long ago: %s", old)
	}
}

func TestEnqueueBatch(t *testing.T) {
	m := &memory{}
	s := newService(t, m, nil)
	good, bad := request(), request()
	bad.URL = "https://10.0.0.1/"
	all, err := s.EnqueueBatch(t.Context(), []delivery.Request{good, good, good}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 3 || len(m.drafts) != 3 || len(m.sent) != 3 {
		t.Fatalf("%d answers, %d drafts, %d sent, want 3 of each", len(all), len(m.drafts), len(m.sent))
	}
	for i, accepted := range all {
		if accepted.ID != m.drafts[i].ID {
			t.Errorf("answer %d is for %s, want %s", i, accepted.ID, m.drafts[i].ID)
		}
	}
	_, err = s.EnqueueBatch(t.Context(), []delivery.Request{good, bad}, 200)
	if e := apierr.From(err); e.Reason != delivery.ReasonTargetNotAllowed || !strings.HasPrefix(e.Text, "deliveries[201].url: ") || len(m.drafts) != 3 {
		t.Errorf("err = %v, %d drafts", err, len(m.drafts))
	}
	m.poison = good.EventType
	if _, err := s.EnqueueBatch(t.Context(), []delivery.Request{good}, 0); err == nil || len(m.drafts) != 3 || m.returned != 1 {
		t.Errorf("err = %v, %d drafts, %d slots given back", err, len(m.drafts), m.returned)
	}
}

// ended is a store whose one delivery has ended, or has not.
type ended struct {
	memory
	record    delivery.Record
	resent    []delivery.Resend
	conflicts int
	cancels   bool
	made      []delivery.Attempt
}

func (e *ended) Get(_ context.Context, _, owner string, id delivery.ID, _ bool) (delivery.Record, error) {
	if owner == "bob" {
		return delivery.Record{}, apierr.NotFound("delivery")
	}
	e.record.ID = id
	return e.record, nil
}

func (e *ended) Resend(_ context.Context, r delivery.Resend) (delivery.Resent, error) {
	if e.conflicts > 0 {
		e.conflicts--
		return delivery.Resent{}, delivery.ErrConflict
	}
	e.resent = append(e.resent, r)
	return delivery.Resent{Deduplicated: r.Key == "again"}, nil
}

func (e *ended) Cancel(context.Context, delivery.ID) (bool, error) {
	if e.cancels {
		e.record.Status = delivery.StatusCancelled
	}
	return e.cancels, nil
}

func (e *ended) Attempts(context.Context, delivery.ID, int64, int) ([]delivery.Attempt, int64, error) {
	return e.made, 0, nil
}

func TestResend(t *testing.T) {
	m := &ended{conflicts: 2}
	s := newService(t, &m.memory, func(o *delivery.Options) { o.Store = m })
	id := delivery.NewID(now).String()
	ask := delivery.ResendRequest{Organization: "acme", ID: id, MaxAttempts: new(99), Deadline: now.Add(time.Hour)}
	if _, repeat, err := s.Resend(t.Context(), ask); err != nil || repeat {
		t.Errorf("repeat %t, %v", repeat, err)
	}
	if m.waiting != 1 {
		t.Errorf("woken %d times, want once", m.waiting)
	}
	if got := m.resent[0].MaxAttempts; got != 20 {
		t.Errorf("%d attempts at most, want 20", got)
	}
	ask.Key, ask.MaxAttempts = "again", nil
	if _, repeat, err := s.Resend(t.Context(), ask); err != nil || !repeat {
		t.Errorf("the key again: repeat %t, %v", repeat, err)
	}
	if m.waiting != 1 {
		t.Errorf("a repeat woke the dispatcher: woken %d times", m.waiting)
	}
	if got := m.resent[1].MaxAttempts; got != 0 {
		t.Errorf("%d attempts at most, want 0 for as many as before", got)
	}
	for name, tt := range map[string]struct {
		change func(*delivery.ResendRequest)
		status int
	}{
		"another owner's":    {func(r *delivery.ResendRequest) { r.Owner = "bob" }, http.StatusNotFound},
		"no id":              {func(r *delivery.ResendRequest) { r.ID = "x" }, http.StatusNotFound},
		"a deadline past":    {func(r *delivery.ResendRequest) { r.Deadline = now }, http.StatusBadRequest},
		"a deadline too far": {func(r *delivery.ResendRequest) { r.Deadline = now.AddDate(9000, 0, 0) }, http.StatusBadRequest},
		"a key with NUL":     {func(r *delivery.ResendRequest) { r.Key = "a\x00" }, http.StatusBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			r := ask
			tt.change(&r)
			if _, _, err := s.Resend(t.Context(), r); err == nil || apierr.From(err).Kind.HTTPStatus() != tt.status {
				t.Errorf("err = %v", err)
			}
		})
	}
}

func TestCancel(t *testing.T) {
	m := &ended{cancels: true}
	s := newService(t, &m.memory, func(o *delivery.Options) { o.Store = m })
	id := delivery.NewID(now).String()
	for range 2 {
		if r, err := s.Cancel(t.Context(), "acme", "", id); err != nil || r.Status != delivery.StatusCancelled {
			t.Errorf("%+v, %v", r, err)
		}
		m.cancels = false
	}
	m.record.Status = delivery.StatusDelivered
	if _, err := s.Cancel(t.Context(), "acme", "", id); apierr.From(err).Reason != delivery.ReasonAlreadyFinished {
		t.Errorf("err = %v", err)
	}
}

func TestSendTest(t *testing.T) {
	m := &ended{record: delivery.Record{Status: delivery.StatusDelivered}, made: []delivery.Attempt{{Number: 1}}}
	s := newService(t, &m.memory, func(o *delivery.Options) { o.Store = m })
	test := delivery.TestDelivery{
		Organization: "acme", URL: "http://127.0.0.1:9000/hook", EventType: "switchyard.ping", SigningMode: "endpoint_body",
		Payload: []byte(`{}`), Endpoint: delivery.JobEndpoint{ID: delivery.NewID(now), Secret: []byte{1}},
	}
	record, attempt, err := s.SendTest(t.Context(), test)
	if err != nil || attempt == nil || record.Status != delivery.StatusDelivered {
		t.Fatalf("%+v, %+v, %v", record, attempt, err)
	}
	job := m.sent[0]
	want := job
	want.Test, want.Endpoint, want.MaxAttempts, want.SigningMode = true, &test.Endpoint, 1, "endpoint_body"
	if diff := cmp.Diff(want, job); diff != "" {
		t.Errorf("job (-want +got):\n%s", diff)
	}
	if job.Deadline.IsZero() {
		t.Error("the job has no deadline")
	}
	// One that takes longer than the caller has time is told as it stands.
	m.record.Status, m.made = delivery.StatusDelivering, nil
	ctx, cancel := context.WithTimeout(t.Context(), 520*time.Millisecond)
	defer cancel()
	if record, attempt, err := s.SendTest(ctx, test); err != nil || attempt != nil || record.Status != delivery.StatusDelivering {
		t.Errorf("%+v, %+v, %v", record, attempt, err)
	}
	test.URL = "https://10.0.0.1/"
	if _, _, err := s.SendTest(ctx, test); apierr.From(err).Reason != delivery.ReasonTargetNotAllowed {
		t.Errorf("err = %v", err)
	}
}
