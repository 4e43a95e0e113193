package dispatch_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/platform/seal"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/signing"
)

// The secrets before rotations sign, each until its own end and not after.
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
		ends []time.Duration
		want string
	}{
		{nil, "new"},
		{[]time.Duration{time.Hour}, "new 1st"},
		{[]time.Duration{-time.Second}, "new"},
		{[]time.Duration{time.Hour, time.Hour, time.Hour}, "new 1st 2nd 3rd"},
		{[]time.Duration{-time.Second, time.Hour, -time.Second}, "new 2nd"},
	} {
		id := delivery.NewID(time.Now())
		var earlier []delivery.EarlierSecret
		for place, end := range tt.ends {
			text := strings.Repeat([]string{"1st", "2nd", "3rd"}[place], 10)
			earlier = append(earlier, delivery.EarlierSecret{Sealed: box.Seal([]byte(text), id.String()), Until: time.Now().Add(end)})
		}
		record, _, err := n.service.SendTest(t.Context(), delivery.TestDelivery{
			Organization: "acme", URL: r.URL, EventType: "e", SigningMode: signing.EndpointBody, Payload: []byte(`{}`),
			Endpoint: delivery.JobEndpoint{
				ID: id, Secret: box.Seal([]byte(strings.Repeat("new", 10)), id.String()), Earlier: earlier,
			},
		})
		if err != nil || record.Status != delivery.StatusDelivered {
			t.Fatalf("%+v, %v", record, err)
		}
		r.mu.Lock()
		headers, body := r.requests[i].Header, r.bodies[i]
		r.mu.Unlock()
		var want []string
		for word := range strings.FieldsSeq(tt.want) {
			mac := hmac.New(sha256.New, []byte(strings.Repeat(word, 10)))
			mac.Write([]byte(headers.Get(signing.HeaderStandardID) + "." + headers.Get(signing.HeaderStandardTimestamp) + "." + body))
			want = append(want, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
		}
		if got := headers.Get(signing.HeaderStandardSignature); got != strings.Join(want, " ") {
			t.Errorf("overlaps that end in %v: %s, want the signatures of %s", tt.ends, got, tt.want)
		}
	}
}
