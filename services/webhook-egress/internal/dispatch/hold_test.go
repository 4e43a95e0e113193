package dispatch_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"switchyard.dev/services/platform/seal"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/delivery"
)

func TestMissingSecretHolds(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	w := newWorld(t, r)
	w.secrets.set(true)
	n := w.start()
	id := w.enqueue(n, request(r))
	until(t, "the delivery says what it waits for", func() bool { return w.get(id).LastError == "signing_secret_missing" })
	later := w.enqueue(n, request(r)) // behind a parked flow
	record := w.get(later)
	if record.Status.Ended() || record.Attempts != 0 || r.count() != 0 {
		t.Errorf("record %+v after %d requests", record, r.count())
	}
	w.secrets.set(false)
	w.untilStatus(id, delivery.StatusDelivered)
	w.untilStatus(later, delivery.StatusDelivered)
	for _, one := range []delivery.ID{id, later} {
		if record := w.get(one); record.Attempts != 1 || record.LastError != "" || len(w.attempts(one)) != 1 {
			t.Errorf("record %+v", record)
		}
	}
}

// Everything fails, the target echoes what it got and knows: no secret may be found in
// any row but the sealed one, nor in the log.
func TestNoSecretIsKept(t *testing.T) {
	t.Parallel()
	const credential = "Bearer canary-credential-42"
	r := newReceiver(t, func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Retry-After", signingSecret)
		w.WriteHeader(http.StatusInternalServerError)
		_ = q.Header.Write(w)
		_, _ = io.WriteString(w, signingSecret)
	})
	box, err := seal.New(secret.New(strings.Repeat("ab", 32)), "webhook")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, r)
	var log bytes.Buffer
	w.log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w.opener, w.sealer = box, box
	q := request(r)
	q.MaxAttempts = new(2)
	q.Headers = map[string]string{"Authorization": credential}
	n := w.start()
	id := w.enqueue(n, q)
	w.untilStatus(id, delivery.StatusFailed)
	n.stop()
	if got := r.requests[0].Header.Get("Authorization"); got != credential {
		t.Errorf("the target got %q", got)
	}
	kept := w.everything()
	if !strings.Contains(kept, "[redacted]") {
		t.Error("the answer was not kept, so the test shows nothing")
	}
	testkit.NoLeak(t, credential, kept, log.String())
	testkit.NoLeak(t, signingSecret, kept, log.String())
}

// Credentials that can't be opened hold back their delivery alone, use up nothing
// and end nothing: once the key is there again, it is sent.
func TestUnreadableHeadersWait(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	box, err := seal.New(secret.New(strings.Repeat("ab", 32)), "webhook")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, r)
	w.sealer = box // and no opener
	q := request(r)
	q.MaxAttempts = new(1)
	q.Headers = map[string]string{"Authorization": "Bearer x"}
	n := w.start()
	id := w.enqueue(n, q)
	until(t, "the delivery says what it waits for", func() bool {
		return w.get(id).LastError == string(delivery.FaultHeadersUnreadable)
	})
	w.untilStatus(w.enqueue(n, request(r)), delivery.StatusDelivered)
	if record := w.get(id); record.Status.Ended() {
		t.Errorf("the delivery ended: %s", record.Status)
	}
	if listed, counted := len(w.attempts(id)), w.get(id).Attempts; listed != 0 || counted != 0 {
		t.Errorf("%d attempts are listed and %d counted, want none", listed, counted)
	}
	if n := r.count(); n != 1 {
		t.Errorf("%d requests, want only the other delivery's", n)
	}
	n.stop()
	w.opener = box
	w.start()
	w.untilStatus(id, delivery.StatusDelivered)
	if record := w.get(id); record.LastError != "" || record.Attempts != 1 {
		t.Errorf("record %+v", record)
	}
}
