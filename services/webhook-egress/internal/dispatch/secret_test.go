package dispatch_test

import (
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/platform/seal"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/signing"
)

// The secret before a rotation signs until its time is over, and not after.
func TestSecretsOverlap(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, nil)
	box, err := seal.New(secret.New(strings.Repeat("ab", 32)), "webhook")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, r)
	w.sealer, w.opener = box, box
	n := w.start()
	for i, tt := range []struct {
		until      time.Duration
		signatures int
	}{{time.Hour, 2}, {-time.Second, 1}} {
		id := delivery.NewID(time.Now())
		record, _, err := n.service.SendTest(t.Context(), delivery.TestDelivery{
			Organization: "acme", URL: r.URL, EventType: "e", SigningMode: signing.EndpointBody, Payload: []byte(`{}`),
			Endpoint: delivery.JobEndpoint{
				ID: id, Secret: box.Seal([]byte(strings.Repeat("new", 10)), id.String()),
				Previous: box.Seal([]byte(strings.Repeat("old", 10)), id.String()), PreviousUntil: time.Now().Add(tt.until),
			},
		})
		if err != nil || record.Status != delivery.StatusDelivered {
			t.Fatalf("%+v, %v", record, err)
		}
		r.mu.Lock()
		got := strings.Fields(r.requests[i].Header.Get(signing.HeaderStandardSignature))
		r.mu.Unlock()
		if len(got) != tt.signatures {
			t.Errorf("%d signatures %s after the rotation's overlap ends, want %d", len(got), -tt.until, tt.signatures)
		}
	}
}
