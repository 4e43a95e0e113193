package delivery

import (
	"context"
	"crypto/sha256"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/callcount"
)

// Request is a delivery as the caller requested it, with its organization and owner determined.
type Request struct {
	Organization string
	Owner        string
	URL          string
	EventType    string
	Payload      []byte
	Headers      map[string]string
	Key          string
	// MaxAttempts is nil for the service's default.
	MaxAttempts *int
	// Deadline is the zero time for none.
	Deadline    time.Time
	Traceparent string
	// OrderingKey is empty for no order.
	OrderingKey string
	// Count is the call's count; nil for a call that counts nothing. In a batch only the first request has it.
	Count *callcount.Count
}

// asked returns what deliveries and events have in common.
func (r *Request) asked() Asked {
	return Asked{r.Payload, r.Headers, r.MaxAttempts, r.Deadline, r.OrderingKey}
}

// accept checks a request and returns its draft.
func (s *Service) accept(ctx context.Context, r Request) (*Draft, error) {
	if err := CheckEventType(r.EventType); err != nil {
		return nil, err
	}
	id := NewID(s.o.Now())
	content, err := s.o.Intake.Take(r.asked(), id, s.o.Now())
	if err != nil {
		return nil, err
	}
	err = CheckTexts(map[string]string{
		"organization_id": r.Organization, "owner_id": r.Owner, "idempotency_key": r.Key, "ordering_key": r.OrderingKey,
	})
	if err != nil {
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
		OrderingKey: r.OrderingKey, Count: r.Count,
	}
	if r.OrderingKey != "" {
		draft.Target = draft.Target.Ordered()
	}
	if r.Key != "" {
		draft.Fingerprint = fingerprint(r)
	}
	return draft, nil
}

// CheckTexts refuses text that the store cannot hold or search for: invalid UTF-8 and NUL.
func CheckTexts(fields map[string]string) error {
	for field, text := range fields {
		if strings.ContainsRune(text, 0) || !utf8.ValidString(text) {
			return apierr.Invalid(field, "must be text without NUL")
		}
	}
	return nil
}

// TargetOf returns the target of a checked URL.
func TargetOf(organization string, u *url.URL) Target {
	t := Target{Organization: organization, Scheme: u.Scheme, Host: u.Hostname(), Port: 80}
	if u.Scheme == "https" {
		t.Port = 443
	}
	if port, err := strconv.Atoi(u.Port()); err == nil {
		t.Port = port
	}
	digest := sha256.Sum256([]byte(u.EscapedPath()))
	t.Path = PathID(digest[:16])
	return t
}

// Ordered returns the target for deliveries with an ordering key: they are in order across all paths of the host.
func (t Target) Ordered() Target {
	t.Path = PathID{}
	return t
}

// fingerprint returns the same hash for requests that ask for the same delivery.
func fingerprint(r Request) [32]byte {
	return Fingerprint([]string{r.Owner, r.URL, r.EventType}, r.asked())
}
