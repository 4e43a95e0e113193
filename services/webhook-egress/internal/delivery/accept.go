package delivery

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"switchyard.dev/services/platform/apierr"
)

// Limits of a request.
const (
	// MaxPayload is measured on the compacted JSON, in bytes.
	MaxPayload = 512 << 10
	// MinAttempts is the fewest that a request may ask for.
	MinAttempts = 1
	// MaxAttempts is the most.
	MaxAttempts = 20
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
	now := s.o.Now()
	if err := checkPayload(r.Payload); err != nil {
		return nil, err
	}
	if !r.Deadline.IsZero() && !r.Deadline.After(now) {
		return nil, apierr.New(apierr.KindInvalid, ReasonDeadlinePassed, "deadline_at: has passed")
	}
	if err := checkTexts(map[string]string{"organization_id": r.Organization, "owner_id": r.Owner, "idempotency_key": r.Key}); err != nil {
		return nil, err
	}
	plain, credentials, err := splitHeaders(r.Headers)
	if err != nil {
		return nil, err
	}
	u, err := s.targets.check(ctx, r.URL)
	if err != nil {
		return nil, err
	}
	draft := &Draft{
		ID: NewID(now), Organization: r.Organization, Owner: r.Owner, Target: targetOf(r.Organization, u), URL: u.String(),
		EventType: r.EventType, Body: r.Payload, Headers: plain, Key: r.Key,
		Fingerprint: fingerprint(r), MaxAttempts: s.maxAttempts(r.MaxAttempts),
		Deadline: r.Deadline, Traceparent: r.Traceparent,
	}
	if len(credentials) > 0 {
		if draft.Sealed, err = s.seal(credentials, draft.ID); err != nil {
			return nil, err
		}
	}
	return draft, nil
}

// checkTexts refuses what the store could not even look for.
func checkTexts(fields map[string]string) error {
	for field, text := range fields {
		if strings.ContainsRune(text, 0) || !utf8.ValidString(text) {
			return apierr.Invalid(field, "must be text without NUL")
		}
	}
	return nil
}

func (s *Service) maxAttempts(asked *int) int {
	if asked == nil {
		return s.o.MaxAttempts
	}
	return min(max(*asked, MinAttempts), MaxAttempts)
}

func (s *Service) seal(credentials map[string]string, id ID) ([]byte, error) {
	if s.o.Sealer == nil {
		name := slices.Min(slices.Collect(maps.Keys(credentials)))
		return nil, refuseHeader(name, "carries a credential, which this service has no key to keep (WEBHOOK_EGRESS_ENCRYPTION_KEY_FILE)")
	}
	text, err := json.Marshal(credentials)
	if err != nil {
		return nil, fmt.Errorf("seal headers: %w", err)
	}
	return s.o.Sealer.Seal(text, id.String()), nil
}

// checkPayload takes a JSON object that is small enough once its spaces are
// left out. Compacting only measures: what is sent is what came.
func checkPayload(payload []byte) error {
	object := bytes.TrimLeft(payload, " \t\r\n")
	if len(object) == 0 || object[0] != '{' || !json.Valid(payload) || !utf8.Valid(payload) {
		return apierr.Invalid("payload", "must be a JSON object")
	}
	if len(payload) <= MaxPayload {
		return nil
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, payload); err != nil || compact.Len() > MaxPayload {
		return apierr.New(apierr.KindTooLarge, ReasonPayloadTooLarge,
			fmt.Sprintf("payload: larger than %d bytes of compact JSON", MaxPayload))
	}
	return nil
}

func targetOf(organization string, u *url.URL) Target {
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
	sum := sha256.New()
	for _, part := range []string{r.Owner, r.URL, r.EventType, string(r.Payload)} {
		writePart(sum, part)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		writePart(sum, name)
		writePart(sum, r.Headers[name])
	}
	// Only where they are asked for, so that a request without them keeps the
	// fingerprint that releases before 00002 gave it.
	if r.MaxAttempts != nil {
		writePart(sum, "max_attempts")
		writePart(sum, strconv.Itoa(*r.MaxAttempts))
	}
	if !r.Deadline.IsZero() {
		writePart(sum, "deadline_at")
		writePart(sum, r.Deadline.UTC().Format(time.RFC3339Nano))
	}
	return [32]byte(sum.Sum(nil))
}

// writePart puts the length first, so that no two lists of parts look alike.
func writePart(sum hash.Hash, part string) {
	sum.Write(binary.AppendUvarint(nil, uint64(len(part))))
	sum.Write([]byte(part))
}
