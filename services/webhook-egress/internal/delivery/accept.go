package delivery

import (
	"context"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"switchyard.dev/services/platform/apierr"
)

// Request is a delivery as it was asked for, its identity settled.
type Request struct {
	Organization string
	Owner        string
	URL          string
	EventType    string
	Payload      []byte
	Headers      map[string]string
	Key          string
	// MaxAttempts is nil for the service's own number.
	MaxAttempts *int
	// Deadline is zero for none.
	Deadline    time.Time
	Traceparent string
}

// accept checks a request and makes the draft of it.
func (s *Service) accept(ctx context.Context, r Request) (*Draft, error) {
	if err := CheckEventType(r.EventType); err != nil {
		return nil, err
	}
	id := NewID(s.o.Now())
	content, err := s.o.Intake.Take(Asked{r.Payload, r.Headers, r.MaxAttempts, r.Deadline}, id, s.o.Now())
	if err != nil {
		return nil, err
	}
	if err := CheckTexts(map[string]string{"organization_id": r.Organization, "owner_id": r.Owner, "idempotency_key": r.Key}); err != nil {
		return nil, err
	}
	u, err := s.o.Targets.Check(ctx, r.URL)
	if err != nil {
		return nil, err
	}
	draft := &Draft{
		ID: id, Organization: r.Organization, Owner: r.Owner, Target: TargetOf(r.Organization, u), URL: u.String(),
		EventType: r.EventType, SigningMode: s.o.SigningMode, Body: content.Body, Headers: content.Headers, Sealed: content.Sealed,
		Key: r.Key, MaxAttempts: content.MaxAttempts, Deadline: content.Deadline, Traceparent: r.Traceparent,
	}
	if r.Key != "" {
		draft.Fingerprint = fingerprint(r)
	}
	return draft, nil
}

// CheckTexts refuses what the store could not even look for.
func CheckTexts(fields map[string]string) error {
	for field, text := range fields {
		if strings.ContainsRune(text, 0) || !utf8.ValidString(text) {
			return apierr.Invalid(field, "must be text without NUL")
		}
	}
	return nil
}

// TargetOf is where a checked URL leads.
func TargetOf(organization string, u *url.URL) Target {
	t := Target{Organization: organization, Scheme: u.Scheme, Host: u.Hostname(), Port: 80}
	if u.Scheme == "https" {
		t.Port = 443
	}
	if port, err := strconv.Atoi(u.Port()); err == nil {
		t.Port = port
	}
	return t
}

// fingerprint is the same for requests that ask for the same thing.
func fingerprint(r Request) [32]byte {
	return Fingerprint([]string{r.Owner, r.URL, r.EventType}, Asked{r.Payload, r.Headers, r.MaxAttempts, r.Deadline})
}
