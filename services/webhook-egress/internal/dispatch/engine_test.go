package dispatch_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/platform/netguard"
	"switchyard.dev/services/webhook-egress/internal/delivery"
)

func TestDelivers(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	w := newWorld(t, r)
	n := w.start()
	q := request(r)
	q.Headers = map[string]string{"X-Custom": "v"}
	q.Traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	id := w.enqueue(n, q)
	w.untilStatus(id, delivery.StatusDelivered)

	h := r.requests[0].Header
	mac := hmac.New(sha256.New, []byte(signingSecret))
	_, _ = io.WriteString(mac, h.Get("X-Webhook-Timestamp")+"."+r.bodies[0])
	if got := h.Get("X-Webhook-Signature"); got != hex.EncodeToString(mac.Sum(nil)) {
		t.Errorf("signature %q does not verify", got)
	}
	if r.bodies[0] != string(q.Payload) {
		t.Errorf("body = %q, want the bytes that were enqueued", r.bodies[0])
	}
	for name, want := range map[string]string{
		"X-Webhook-Id": id.String(), "Webhook-Id": id.String(), "X-Webhook-Event": "order.paid", "X-Webhook-Attempt": "1",
		"X-Custom": "v", "Content-Type": "application/json", "User-Agent": "Switchyard-Webhooks/1.0", "Accept-Encoding": "",
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	if !strings.HasPrefix(h.Get("Traceparent"), "00-0af7651916cd43dd8448eb211c80319c-") {
		t.Errorf("traceparent = %q, want the caller's trace", h.Get("Traceparent"))
	}
	record, attempts := w.get(id), w.attempts(id)
	want := record
	want.Attempts, want.LastResponseCode, want.LastError, want.NextAttempt = 1, 200, "", time.Time{}
	if diff := cmp.Diff(want, record); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	if record.Finished.IsZero() {
		t.Error("the record has no time of its end")
	}
	if len(attempts) != 1 {
		t.Fatalf("%d attempts, want 1", len(attempts))
	}
	if a := attempts[0]; a.Outcome != delivery.OutcomeDelivered || a.RemoteIP != "127.0.0.1" {
		t.Errorf("%s to %s, want delivered to 127.0.0.1", a.Outcome, a.RemoteIP)
	}
	if took := attempts[0].Timing.Total; took <= 0 {
		t.Errorf("took %s", took)
	}
	if n := w.count("SELECT count(*) FROM delivery_queue"); n != 0 {
		t.Errorf("%d rows left in the queue", n)
	}
}

func TestRetries(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	r.Config.Handler = chain(r.Config.Handler, func(w http.ResponseWriter, _ *http.Request) {
		if r.count() < 3 {
			w.Header().Set("Retry-After", "garbage")
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, "not \xff now\x00")
		}
	})
	w := newWorld(t, r)
	id := w.enqueue(w.start(), request(r))
	w.untilStatus(id, delivery.StatusDelivered)

	type seen struct {
		Number     int
		Outcome    delivery.Outcome
		Code       int
		Fault      delivery.Fault
		Body       string
		RetryAfter string
		Planned    bool
	}
	var got []seen
	for _, a := range w.attempts(id) {
		got = append(got, seen{a.Number, a.Outcome, a.ResponseCode, a.Error, a.ResponseBody, a.RetryAfter, !a.Next.IsZero()})
	}
	want := []seen{
		{1, delivery.OutcomeRetry, 500, delivery.FaultServer, "not ? now?", "garbage", true},
		{2, delivery.OutcomeRetry, 500, delivery.FaultServer, "not ? now?", "garbage", true},
		{3, delivery.OutcomeDelivered, 200, "", "", "", false},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}
	for i, q := range r.requests {
		if q.Header.Get("X-Webhook-Attempt") != strconv.Itoa(i+1) || q.Header.Get("X-Webhook-Id") != id.String() {
			t.Errorf("request %d: %v", i, q.Header)
		}
	}
}

// chain answers with handle after first has taken the request in.
func chain(first http.Handler, handle http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		first.ServeHTTP(w, r)
		handle(w, r)
	})
}

func TestEnds(t *testing.T) {
	t.Parallel()
	elsewhere := newReceiver(t, nil)
	tests := map[string]struct {
		handle   http.HandlerFunc
		attempts int
		outcome  delivery.Outcome
		fault    delivery.Fault
	}{
		"gone":     {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) }, 1, delivery.OutcomeGone, delivery.FaultClient},
		"used up":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }, 3, delivery.OutcomeFailed, delivery.FaultClient},
		"redirect": {func(w http.ResponseWriter, q *http.Request) { http.Redirect(w, q, elsewhere.URL, http.StatusFound) }, 3, delivery.OutcomeFailed, delivery.FaultRedirect},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := newReceiver(t, tt.handle)
			w := newWorld(t, r, elsewhere)
			q := request(r)
			q.MaxAttempts = new(3)
			id := w.enqueue(w.start(), q)
			w.untilStatus(id, delivery.StatusFailed)
			record, attempts := w.get(id), w.attempts(id)
			last := attempts[len(attempts)-1]
			if len(attempts) != tt.attempts || record.Attempts != tt.attempts {
				t.Errorf("%d attempts, the record has %d, want %d", len(attempts), record.Attempts, tt.attempts)
			}
			if last.Outcome != tt.outcome {
				t.Errorf("outcome %s, want %s", last.Outcome, tt.outcome)
			}
			if record.LastError != string(tt.fault) {
				t.Errorf("last error %q, want %q", record.LastError, tt.fault)
			}
		})
	}
	if elsewhere.count() != 0 {
		t.Error("a redirect was followed")
	}
}

func TestIdempotency(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	w := newWorld(t, r)
	nodes := []*node{w.start(), w.start()}
	results := make([]delivery.Accepted, 50)
	var calls sync.WaitGroup
	for i := range results {
		calls.Go(func() {
			q := request(r)
			q.Key = "once"
			if i%5 == 4 {
				q.Payload = []byte(`{"another": true}`)
			}
			var err error
			if results[i], err = nodes[i%2].service.Enqueue(t.Context(), q); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	var first int
	prints := map[bool]int{}
	for i, a := range results {
		if a.ID != results[0].ID {
			t.Errorf("two deliveries: %v and %v", a.ID, results[0].ID)
		}
		if !a.Deduplicated {
			first++
			prints[i%5 == 4]++
		}
	}
	for i, a := range results {
		if want := a.Deduplicated && (i%5 == 4) != (prints[true] == 1); a.Mismatch != want {
			t.Errorf("request %d: mismatch = %v", i, a.Mismatch)
		}
	}
	w.untilStatus(results[0].ID, delivery.StatusDelivered)
	if first != 1 || r.count() != 1 || w.count("SELECT count(*) FROM deliveries") != 1 {
		t.Errorf("%d accepted as new, %d requests", first, r.count())
	}
	q := request(r)
	q.Key, q.Organization = "once", "other"
	if a, err := nodes[0].service.Enqueue(t.Context(), q); err != nil || a.Deduplicated {
		t.Errorf("another organization's key: %+v, %v", a, err)
	}
}

// The check that counts is made on the address that is dialled.
func TestGuardAtDial(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	w := newWorld(t, r)
	id := w.leave(1, "acme", r.URL)[0]
	var err error
	if w.guard, err = netguard.New(netguard.Options{}); err != nil {
		t.Fatal(err)
	}
	w.start()
	until(t, "attempts are recorded", func() bool { return len(w.attempts(id)) > 1 })
	a := w.attempts(id)[0]
	want := a
	want.Error, want.RemoteIP, want.ResponseBody = delivery.FaultTarget, "", ""
	if diff := cmp.Diff(want, a); diff != "" {
		t.Errorf("attempt (-want +got):\n%s", diff)
	}
	if n := r.count(); n != 0 {
		t.Errorf("%d requests reached the target", n)
	}
}

// A target that hangs keeps its share of the slots and no more.
func TestSlowTargetStarvesNobody(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	slow := newReceiver(t, func(http.ResponseWriter, *http.Request) { <-release })
	fast := newReceiver(t, nil)
	w := newWorld(t, slow, fast)
	w.limits = limitsOf(8)
	w.leave(50, "bad", slow.URL)
	w.start()
	until(t, "the slow target has its share", func() bool { return slow.count() == w.limits.Flow })
	w.leave(50, "good", fast.URL)
	until(t, "the others are delivered", func() bool { return fast.count() == 50 })
	if got := slow.count(); got != w.limits.Flow {
		t.Errorf("the slow target holds %d slots, want %d", got, w.limits.Flow)
	}
	close(release)
	until(t, "the queue is empty", func() bool { return w.count("SELECT count(*) FROM delivery_queue") == 0 })
}

// A result that can never be stored, here for want of a partition, must not
// keep its slot or what is settled beside it.
func TestUnstorableResult(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	w := newWorld(t, r)
	yesterday := delivery.NewID(time.Now().AddDate(0, 0, -1))
	w.exec("DROP TABLE attempts" + yesterday.Time().Format("_20060102"))
	ids := w.leave(20, "acme", r.URL)
	w.exec(fmt.Sprintf(`WITH d AS (UPDATE deliveries SET id = '%[1]s', created_at = '%[2]s' WHERE id = '%[3]s'),
		b AS (UPDATE delivery_body SET delivery_id = '%[1]s', created_at = '%[2]s' WHERE delivery_id = '%[3]s')
		UPDATE delivery_queue SET delivery_id = '%[1]s', created_at = '%[2]s' WHERE delivery_id = '%[3]s'`,
		yesterday, yesterday.Time().Format(time.RFC3339Nano), ids[0]))
	n := w.start()
	for _, id := range ids[1:] {
		w.untilStatus(id, delivery.StatusDelivered)
	}
	until(t, "all were sent", func() bool { return r.count() == len(ids) })
	drained := make(chan error, 1)
	go func() { drained <- n.engine.Drain(t.Context()) }()
	select {
	case err := <-drained:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("a slot is kept")
	}
}

// The next attempt would come after the deadline: the delivery ends at it.
func TestDeadline(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "60")
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	w := newWorld(t, r)
	q := request(r)
	q.Deadline = time.Now().Add(2 * time.Second)
	id := w.enqueue(w.start(), q)
	w.untilStatus(id, delivery.StatusExpired)
	record := w.get(id)
	want := record
	want.Attempts, want.LastResponseCode, want.LastError, want.NextAttempt = 1, 503, "http_5xx", time.Time{}
	if diff := cmp.Diff(want, record); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	if record.Finished.Before(q.Deadline) {
		t.Errorf("ended %v before the deadline", q.Deadline.Sub(record.Finished))
	}
}

func TestHealthIsCounted(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	r.Config.Handler = chain(r.Config.Handler, func(w http.ResponseWriter, _ *http.Request) {
		if r.count() <= 2 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	w := newWorld(t, r)
	w.untilStatus(w.enqueue(w.start(), request(r)), delivery.StatusDelivered)
	got := map[string]int{}
	for _, column := range []string{"delivered", "failed", "consecutive_failures"} {
		got[column] = w.count("SELECT " + column + " FROM flow_health")
	}
	if want := map[string]int{"delivered": 1, "failed": 2, "consecutive_failures": 0}; !maps.Equal(got, want) {
		t.Errorf("health = %v, want %v", got, want)
	}
}
