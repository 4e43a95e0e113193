package telemetry

import (
	"errors"
	"hash/fnv"
	"log/slog"
	"math"
	"strconv"
	"strings"
)

// messageCall is the message of the line that each call to a service has.
const messageCall = "call"

// Share is a share of a whole, from 0 to 1. It implements encoding.TextUnmarshaler for settings.
type Share float64

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Share) UnmarshalText(text []byte) error {
	share, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(share >= 0 && share <= 1) { // NaN is neither.
		return errors.New("must be from 0 to 1")
	}
	*s = Share(share)
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (s Share) MarshalText() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(s), 'g', -1, 64), nil
}

// Rest returns what is missing to the whole.
func (s Share) Rest() Share { return 1 - s }

// sample decides which calls have a line. It depends on the request id alone, so that all services that a request passes
// decide the same.
type sample struct {
	// share of the calls, from 0 to 1.
	share Share
}

// keeps reports whether a line is written: the line of a sampled call, or of one that failed, or any other line.
func (s sample) keeps(requestID string, r *slog.Record) bool {
	if s.share >= 1 || r.Message != messageCall || r.Level > slog.LevelInfo || failed(r) {
		return true
	}
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(requestID)) // A hash returns no error.
	return float64(sum.Sum64()>>11) < float64(s.share)*math.Exp2(53)
}

// failed reports whether a call's line has an error or a status that is none of success.
func failed(r *slog.Record) (found bool) {
	r.Attrs(func(a slog.Attr) bool {
		found = a.Key == "error" || strings.HasSuffix(a.Key, "_error") || a.Key == "status" && a.Value.Kind() == slog.KindInt64 && a.Value.Int64() >= 400
		return !found
	})
	return found
}
