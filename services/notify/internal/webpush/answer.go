package webpush

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"switchyard.dev/services/platform/retryafter"
)

// Verdict is what a push service's answer means for the message and the device.
type Verdict string

// The verdicts.
const (
	// Accepted: the push service has the message.
	Accepted Verdict = "accepted"
	// Gone: the subscription has ended. It is the only verdict that removes it.
	Gone Verdict = "gone"
	// Retry: nothing is wrong with the message; it may be sent again.
	Retry Verdict = "retry"
	// Lost: the message was sent and the answer did not come.
	Lost Verdict = "lost"
	// Mismatch: the subscription was made for another VAPID key.
	Mismatch Verdict = "key_mismatch"
	// Unauthorized: the push service doesn't take our token.
	Unauthorized Verdict = "auth"
	// Refused: this message will never be taken.
	Refused Verdict = "refused"
)

// Answer is a push service's answer, read.
type Answer struct {
	Verdict Verdict
	// Status is the HTTP status; 0 when there was no answer.
	Status int
	// Reason is a short code without anything of the subscription.
	Reason string
	// RetryAfter is the wait that the push service asked for; 0 when for none.
	RetryAfter time.Duration
}

// maxRetryAfter bounds the wait that is taken at its word.
const maxRetryAfter = 24 * time.Hour

// Read decides what an answer means (RFC 8030, sections 5 and 7.3; RFC 8292,
// section 4.2; what the push services document). body is its beginning.
func Read(status int, header http.Header, body []byte, now time.Time) Answer {
	a := Answer{Status: status, Reason: reason(status, header, body), RetryAfter: retryafter.Parse(header.Get("Retry-After"), now, maxRetryAfter)}
	switch {
	case status >= 200 && status < 300:
		a.Verdict, a.Reason, a.RetryAfter = Accepted, "", 0
	case status == http.StatusNotFound, status == http.StatusGone:
		a.Verdict, a.RetryAfter = Gone, 0
	case isMismatch(status, body):
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

// retryable reports whether a later try may be taken. 406 is how WNS throttles.
func retryable(status int) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusRequestTimeout, http.StatusTooEarly, http.StatusNotAcceptable:
		return true
	}
	return status >= 500
}

// mismatches are what push services say when a subscription is another key's:
// FCM, FCM for keys of its own console, Apple.
var mismatches = []string{"do not correspond to the credentials", "mismatchsenderid", "unauthorizedregistration", "vapidpkhashmismatch"}

// tokenFaults are what they say when the token is at fault, whatever the subscription.
var tokenFaults = []string{"jwt", "token", "expired", "audience", "claim", "signature"}

// isMismatch reports whether the key is not the subscription's. A 403 says so
// unless its text blames the token: that would be every subscription's trouble,
// and taking them all out of use would be ours.
func isMismatch(status int, body []byte) bool {
	text := strings.ToLower(string(body))
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

// reason is the status with the push service's own code: Apple's reason,
// Mozilla's errno, or the description in WNS's header.
func reason(status int, header http.Header, body []byte) string {
	code := "http_" + strconv.Itoa(status)
	var said struct {
		Reason string `json:"reason"`
		Errno  int    `json:"errno"`
	}
	_ = json.Unmarshal(body, &said) // other services answer in plain text
	detail := said.Reason
	if said.Errno != 0 {
		detail = "errno " + strconv.Itoa(said.Errno)
	}
	if windows := header.Get("X-Wns-Error-Description"); windows != "" {
		detail = windows
	}
	if detail = harmless(detail); detail != "" {
		code += ": " + detail
	}
	return code
}

// Limits of what is taken over of a push service's words: no word so long that
// it could be a part of the endpoint.
const (
	maxDetail = 100
	maxWord   = 24
)

// harmless gives a detail made of plain short words, or nothing.
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
