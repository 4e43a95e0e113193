package delivery

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/jsoncheck"
)

// The limits of a request.
const (
	// MaxPayload is the largest payload in bytes of compact JSON.
	MaxPayload = 512 << 10
	// MinAttempts is the lowest number of attempts that a request may ask for.
	MinAttempts = 1
	// MaxAttempts is the highest.
	MaxAttempts = 20
)

// Asked holds what callers may specify for deliveries and events alike.
type Asked struct {
	Payload []byte
	Headers map[string]string
	// MaxAttempts is nil for the service's default.
	MaxAttempts *int
	// Deadline is the zero time for none.
	Deadline time.Time
	// OrderingKey is empty for no order.
	OrderingKey string
}

// Content is a checked Asked. Sealed holds the encrypted headers with credentials.
type Content struct {
	Body        []byte
	Headers     map[string]string
	Sealed      []byte
	MaxAttempts int
	Deadline    time.Time
}

// Intake holds the rules for Asked. With a nil Sealer, headers that carry a credential are refused.
type Intake struct {
	Sealer      Sealer
	MaxAttempts int
}

// Take checks a at time now and seals its credentials for id.
func (i Intake) Take(a Asked, id ID, now time.Time) (Content, error) {
	if err := checkPayload(a.Payload); err != nil {
		return Content{}, err
	}
	if err := CheckDeadline(a.Deadline, now); err != nil {
		return Content{}, err
	}
	plain, credentials, err := splitHeaders(a.Headers)
	if err != nil {
		return Content{}, err
	}
	content := Content{Body: a.Payload, Headers: plain, MaxAttempts: Clamp(a.MaxAttempts, i.MaxAttempts), Deadline: a.Deadline}
	if len(credentials) > 0 {
		content.Sealed, err = i.seal(credentials, id)
	}
	return content, err
}

// OwnEvents is the prefix of the types of events that the service itself emits.
const OwnEvents = "switchyard."

// CheckEventType refuses event types that are reserved for the service itself.
func CheckEventType(eventType string) error {
	if strings.HasPrefix(eventType, OwnEvents) {
		return apierr.Invalid("event_type", "must not begin with `"+OwnEvents+"`: such events are the service's own")
	}
	return nil
}

// maxYear is the last year that RFC 3339 can represent.
const maxYear = 9999

// CheckDeadline refuses a deadline that has passed; the zero time is no deadline.
func CheckDeadline(deadline, now time.Time) error {
	switch {
	case deadline.IsZero():
		return nil
	case !deadline.After(now):
		return apierr.New(apierr.KindInvalid, ReasonDeadlinePassed, "deadline_at: has passed")
	case deadline.Year() > maxYear:
		return apierr.Invalid("deadline_at", "must be before the year 10000")
	}
	return nil
}

// Clamp limits the requested number of attempts to the allowed range; nil returns fallback.
func Clamp(asked *int, fallback int) int {
	if asked == nil {
		return fallback
	}
	return min(max(*asked, MinAttempts), MaxAttempts)
}

func (i Intake) seal(credentials map[string]string, id ID) ([]byte, error) {
	if i.Sealer == nil {
		name := slices.Min(slices.Collect(maps.Keys(credentials)))
		return nil, refuseHeader(name, "carries a credential, which this service has no key to keep (WEBHOOK_EGRESS_ENCRYPTION_KEY_FILE)")
	}
	text, err := json.Marshal(credentials)
	if err != nil {
		return nil, fmt.Errorf("seal headers: %w", err)
	}
	return i.Sealer.Seal(text, id.String()), nil
}

// checkPayload checks that payload is a JSON object of at most MaxPayload bytes without whitespace. The payload is
// sent as received; compacting only measures it.
func checkPayload(payload []byte) error {
	if rule := jsoncheck.ObjectRule(payload); rule != "" {
		return apierr.Invalid("payload", rule)
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

// Fingerprint returns the same hash for requests that ask for the same thing; parts are the fields of the request
// outside a.
func Fingerprint(parts []string, a Asked) [32]byte {
	sum := sha256.New()
	for _, part := range append(slices.Clip(parts), string(a.Payload)) {
		writePart(sum, part)
	}
	for _, name := range slices.Sorted(maps.Keys(a.Headers)) {
		writePart(sum, name)
		writePart(sum, a.Headers[name])
	}
	// Written only when set, so that a request without them keeps the fingerprint that releases before them computed. No header has such a name.
	if a.MaxAttempts != nil {
		writePart(sum, "max attempts")
		writePart(sum, strconv.Itoa(*a.MaxAttempts))
	}
	if !a.Deadline.IsZero() {
		writePart(sum, "deadline at")
		writePart(sum, a.Deadline.UTC().Format(time.RFC3339Nano))
	}
	if a.OrderingKey != "" {
		writePart(sum, "ordering key")
		writePart(sum, a.OrderingKey)
	}
	return [32]byte(sum.Sum(nil))
}

// writePart writes the length first, so that no two lists of parts hash alike.
func writePart(sum hash.Hash, part string) {
	sum.Write(binary.AppendUvarint(nil, uint64(len(part))))
	sum.Write([]byte(part))
}
