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

// Limits of a request.
const (
	// MaxPayload is measured on the compacted JSON, in bytes.
	MaxPayload = 512 << 10
	// MinAttempts is the fewest that a request may ask for.
	MinAttempts = 1
	// MaxAttempts is the most.
	MaxAttempts = 20
)

// Asked is what may be asked of a delivery and of an event alike.
type Asked struct {
	Payload []byte
	Headers map[string]string
	// MaxAttempts is nil for the service's own number.
	MaxAttempts *int
	// Deadline is zero for none.
	Deadline time.Time
}

// Content is that, checked.
type Content struct {
	Body        []byte
	Headers     map[string]string
	Sealed      []byte
	MaxAttempts int
	Deadline    time.Time
}

// Intake are the rules for what may be asked. Sealer may be nil: then headers
// that carry a credential are refused.
type Intake struct {
	Sealer      Sealer
	MaxAttempts int
}

// Take checks what was asked at now; credentials are sealed for id.
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

// OwnEvents begin the types of events that the service itself emits.
const OwnEvents = "switchyard."

// CheckEventType refuses a type by which a caller would pass for the service.
func CheckEventType(eventType string) error {
	if strings.HasPrefix(eventType, OwnEvents) {
		return apierr.Invalid("event_type", "must not begin with `"+OwnEvents+"`: such events are the service's own")
	}
	return nil
}

// maxYear is the last that RFC 3339 can write.
const maxYear = 9999

// CheckDeadline refuses one that has passed; zero is none.
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

// Clamp is the number of attempts that was asked for, within bounds; fallback
// for none.
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

// checkPayload takes a JSON object that is small enough once its spaces are
// left out. Compacting only measures: what is sent is what came.
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

// Fingerprint is the same for requests that ask for the same thing: parts are
// what a request has beside what was asked.
func Fingerprint(parts []string, a Asked) [32]byte {
	sum := sha256.New()
	for _, part := range append(slices.Clip(parts), string(a.Payload)) {
		writePart(sum, part)
	}
	for _, name := range slices.Sorted(maps.Keys(a.Headers)) {
		writePart(sum, name)
		writePart(sum, a.Headers[name])
	}
	// Only where they are asked for, so that a request without them keeps the
	// fingerprint that releases before 00002 gave it. No header has such a name.
	if a.MaxAttempts != nil {
		writePart(sum, "max attempts")
		writePart(sum, strconv.Itoa(*a.MaxAttempts))
	}
	if !a.Deadline.IsZero() {
		writePart(sum, "deadline at")
		writePart(sum, a.Deadline.UTC().Format(time.RFC3339Nano))
	}
	return [32]byte(sum.Sum(nil))
}

// writePart puts the length first, so that no two lists of parts look alike.
func writePart(sum hash.Hash, part string) {
	sum.Write(binary.AppendUvarint(nil, uint64(len(part))))
	sum.Write([]byte(part))
}
