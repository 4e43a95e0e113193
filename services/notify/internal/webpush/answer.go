package webpush

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"switchyard.dev/services/platform/retryafter"
)

// Verdict is the meaning of a push service's response for the message and the device.
type Verdict string

// The verdicts.
const (
	// Accepted means that the push service has the message.
	Accepted Verdict = "accepted"
	// Gone means that the subscription has ended. It is the only verdict that removes it.
	Gone Verdict = "gone"
	// Retry means that nothing is wrong with the message; it may be sent again.
	Retry Verdict = "retry"
	// Lost means that the message was sent and the response did not arrive.
	Lost Verdict = "lost"
	// Mismatch means that the subscription was made for another VAPID key.
	Mismatch Verdict = "key_mismatch"
	// Unauthorized means that the push service refuses the token.
	Unauthorized Verdict = "auth"
	// Refused means that this message will never be accepted.
	Refused Verdict = "refused"
)

// Answer is an interpreted response of a push service.
type Answer struct {
	Verdict Verdict
	// Status is the HTTP status; 0 without a response.
	Status int
	// Reason is a short code without any part of the subscription.
	Reason string
	// RetryAfter is the wait that the push service asked for; 0 for none.
	RetryAfter time.Duration
}

// maxRetryAfter bounds the wait that is honoured.
const maxRetryAfter = 24 * time.Hour

// Read interprets a response (RFC 8030, sections 5 and 7.3; RFC 8292, section 4.2; the push services' documentation).
// body is its beginning.
func Read(status int, header http.Header, body []byte, now time.Time) Answer {
	a := Answer{Status: status, Reason: reason(status, header, body), RetryAfter: retryafter.Parse(header.Get("Retry-After"), now, maxRetryAfter)}
	switch {
	case status >= 200 && status < 300:
		a.Verdict, a.Reason, a.RetryAfter = Accepted, "", 0
	case status == http.StatusNotFound, status == http.StatusGone:
		a.Verdict, a.RetryAfter = Gone, 0
	case isMismatch(status, header, body):
		a.Verdict, a.Reason = Mismatch, "vapid_key_mismatch"
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		a.Verdict = Unauthorized
	case retryable(status):
		a.Verdict = Retry
	default:
		a.Verdict = Refused
	}
	return a
}

// retryable reports whether a later try may be accepted. 406 is how WNS throttles.
func retryable(status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusRequestTimeout, http.StatusTooEarly, http.StatusNotAcceptable:
		return true
	}
	return status >= 500
}

// mismatches are the words, in lower case, by which push services say that a subscription was made for another key.
var mismatches = []string{
	"do not correspond to the credentials",       // FCM
	"does not correspond to the sender id",       // FCM, keys of its own console
	"mismatchsenderid",                           // FCM, keys of its own console
	"unauthorizedregistration",                   // FCM
	"vapid public key mismatch",                  // Mozilla, with 401
	"vapidpkhashmismatch",                        // Apple
	"public key used to sign jwt does not match", // WNS, with 401 and in a header
}

// tokenFaults are words by which they blame the token, whatever the subscription.
var tokenFaults = []string{"jwt", "token", "expired", "audience", "claim", "signature"}

// windowsReason is the header in which WNS says why it refuses a push; its body is empty.
const windowsReason = "X-Wns-Error-Description"

// isMismatch reports whether the subscription was made for another key. A 403 means that unless its words blame the
// token. A faulty token affects all subscriptions, so quarantining them would be wrong.
func isMismatch(status int, header http.Header, body []byte) bool {
	text := strings.ToLower(header.Get(windowsReason) + "\n" + string(body))
	switch status {
	case http.StatusBadRequest, http.StatusUnauthorized:
		return containsAny(text, mismatches)
	case http.StatusForbidden:
		return containsAny(text, mismatches) || !containsAny(text, tokenFaults)
	}
	return false
}

func containsAny(text string, parts []string) bool {
	for _, part := range parts {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

// reason returns the status with the push service's own code: Apple's reason, Mozilla's errno, or the description in
// WNS's header.
func reason(status int, header http.Header, body []byte) string {
	code := "http_" + strconv.Itoa(status)
	var said struct {
		Reason string `json:"reason"`
		Errno  int    `json:"errno"`
	}
	_ = json.Unmarshal(body, &said) // other services respond in plain text
	detail := said.Reason
	if said.Errno != 0 {
		detail = "errno " + strconv.Itoa(said.Errno)
	}
	if windows := header.Get(windowsReason); windows != "" {
		detail = windows
	}
	if detail = harmless(detail); detail != "" {
		code += ": " + detail
	}
	return code
}

// Limits of the push service's text that is kept: no word is long enough to be a part of the endpoint.
const (
	maxDetail = 100
	maxWord   = 24
)

// harmless returns a detail that consists of plain short words, or nothing.
func harmless(detail string) string {
	if len(detail) > maxDetail {
		return ""
	}
	for word := range strings.FieldsSeq(detail) {
		odd := strings.ContainsFunc(word, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.,", r)
		})
		if odd || len(word) > maxWord {
			return ""
		}
	}
	return detail
}
