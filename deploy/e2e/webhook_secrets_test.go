//go:build e2e

package e2e_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"switchyard.dev/deploy/dev/stack"
)

// endpointSecret returns a new signing secret, and adds it to knownSecrets.
func endpointSecret(t *testing.T) string {
	t.Helper()
	secret := "whsec_" + base64.StdEncoding.EncodeToString([]byte(unique("endpoint-signing-secret")))
	knownSecrets.add("an endpoint's signing secret", secret)
	return secret
}

// verifyBody verifies the signature of a delivery as the receiver of an endpoint with a secret of its own does.
func verifyBody(t *testing.T, secret string, a arrival) {
	t.Helper()
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(a.Body))
	if want := "sha256=" + hex.EncodeToString(mac.Sum(nil)); a.Headers.Get("X-Webhook-Signature") != want || a.Headers.Get("X-Webhook-Timestamp") != "" {
		t.Errorf("X-Webhook-Signature: %q, want %q; timestamp %q", a.Headers.Get("X-Webhook-Signature"), want, a.Headers.Get("X-Webhook-Timestamp"))
	}
}

// A secret that doesn't suit Standard Webhooks signs as the signing mode says; v1 waits for one that suits.
func TestSignaturesSuitTheSecret(t *testing.T) {
	t.Parallel()
	h := use(t)
	webhooks, to := h.service(stack.WebhookEgress, unique("org")), h.receiver()
	long, brief := endpointSecret(t), unique("brief")
	knownSecrets.add("an endpoint's brief secret", brief)
	e := to.subscribe(t, webhooks, []string{"*"}, object{"signing_mode": "endpoint_body", "signing_secret": brief})
	if !slices.Equal(e.Signatures, []string{"spec"}) || len(e.Warnings) != 0 {
		t.Errorf("registered %+v", e)
	}
	path := endpointPath + "/" + e.ID
	webhooks.do(t, http.MethodPatch, path, object{"signatures": []string{"v1"}}).refused(t, http.StatusBadRequest, "invalid_request", "signatures")
	ended(t, webhooks, webhooks.emit(t, "a").to(t, e.ID))
	webhooks.do(t, http.MethodPatch, path, object{"signatures": []string{"v1"}, "signing_secret": long}).into(t, http.StatusOK, &e)
	if !slices.Equal(e.Signatures, []string{"spec", "v1"}) || len(e.Warnings) != 0 {
		t.Errorf("changed %+v", e)
	}
	webhooks.do(t, http.MethodPatch, path, object{"signing_secret": brief}).refused(t, http.StatusBadRequest, "invalid_request", "signing_secret")
	ended(t, webhooks, webhooks.emit(t, "a").to(t, e.ID))
	arrived := to.arrivals(t)
	if len(arrived) != 2 {
		t.Fatalf("%d arrivals, want 2", len(arrived))
	}
	verifyBody(t, brief, arrived[0])
	if got := arrived[0].Headers.Get("Webhook-Signature"); got != "" {
		t.Errorf("Webhook-Signature: %q with a secret that doesn't suit", got)
	}
	verifyBody(t, long, arrived[1])
	verifyStandard(t, long, arrived[1])
}

func TestSecretRotation(t *testing.T) {
	t.Parallel()
	h := use(t)
	webhooks, to := h.service(stack.WebhookEgress, unique("org")), h.receiver()
	before, after, third, last := endpointSecret(t), endpointSecret(t), endpointSecret(t), endpointSecret(t)
	e := to.subscribe(t, webhooks, []string{"*"}, object{"signing_mode": "endpoint_body", "signing_secret": before})
	send := func(count int) arrival {
		t.Helper()
		ended(t, webhooks, webhooks.emit(t, "a").to(t, e.ID))
		arrived := to.arrivals(t)
		if len(arrived) != count {
			t.Fatalf("%d arrivals, want %d", len(arrived), count)
		}
		return arrived[count-1]
	}
	verifyBody(t, before, send(1))
	var rotated subscription
	webhooks.do(t, http.MethodPatch, endpointPath+"/"+e.ID, object{"signing_secret": after}).into(t, http.StatusOK, &rotated)
	if rotated.PreviousUntil == nil {
		t.Errorf("rotated %+v", rotated)
	}
	both := send(2)
	verifyBody(t, after, both)
	verifyStandard(t, before, both)
	verifyStandard(t, after, both)
	// A second rotation leaves the overlap of the first: its receiver verifies until its own end.
	webhooks.do(t, http.MethodPatch, endpointPath+"/"+e.ID, object{"signing_secret": third, "secret_overlap_seconds": 1}).want(t, http.StatusOK)
	waitFor(t, waitTimeout, "the second rotation's overlap to end", func() error {
		webhooks.get(t, endpointPath+"/"+e.ID).into(t, http.StatusOK, &rotated)
		if rotated.PreviousUntil != nil || len(rotated.EarlierUntil) != 1 {
			return fmt.Errorf("it is %+v", rotated)
		}
		return nil
	})
	first := send(3)
	verifyBody(t, third, first)
	verifyStandard(t, before, first)
	verifyStandard(t, third, first)
	if n := len(strings.Fields(first.Headers.Get("Webhook-Signature"))); n != 2 {
		t.Errorf("%d signatures, want those of the first and the third secret", n)
	}
	webhooks.do(t, http.MethodPatch, endpointPath+"/"+e.ID, object{"signing_secret": last, "secret_overlap_seconds": 0}).into(t, http.StatusOK, &rotated)
	if rotated.PreviousUntil != nil || len(rotated.EarlierUntil) != 0 {
		t.Errorf("rotated at once %+v", rotated)
	}
	one := send(4)
	verifyBody(t, last, one)
	if n := len(strings.Fields(one.Headers.Get("Webhook-Signature"))); n != 1 {
		t.Errorf("%d signatures, want the last secret's alone", n)
	}
}
