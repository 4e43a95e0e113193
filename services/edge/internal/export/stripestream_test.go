package export

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

// stripeServer is Stripe's stream: sessions have the token that it gave last.
type stripeServer struct {
	sessions, batches int
	left              time.Duration
	// failure, unless zero, is the status of answers to requests for sessions, which have no token.
	failure int
}

func (s *stripeServer) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := respond(http.StatusOK, "")
	switch token := fmt.Sprint("Bearer token-", s.sessions); {
	case r.URL.Path == sessionPath && s.failure != 0:
		return respond(s.failure, ""), nil
	case r.URL.Path == sessionPath:
		s.sessions++
		answer.Body = io.NopCloser(strings.NewReader(aSession(fmt.Sprint("token-", s.sessions), s.left)))
	case r.Header.Get("Authorization") != token:
		return respond(http.StatusUnauthorized, ""), nil
	default:
		s.batches++
	}
	return answer, nil
}

func (s *stripeServer) vendor(t *testing.T) vendor {
	t.Helper()
	return newVendor(&http.Client{Transport: s}, Destination{
		Kind: StripeStream, BaseURL: "http://api", StreamURL: "http://stream", KeyFile: secret.File(testkit.File(t, "the-key\n")),
	}, 0)
}

// A session serves many batches. It is replaced before it ends, after a quarter of an hour at the latest, and when Stripe
// no longer takes it.
func TestSessions(t *testing.T) {
	for name, tt := range map[string]struct {
		left, pause time.Duration
		want        int
	}{
		"in time":       {15 * time.Minute, time.Minute, 1},
		"at its end":    {5 * time.Minute, 4 * time.Minute, 5},
		"without end":   {24 * time.Hour, 7 * time.Minute, 3},
		"already ended": {-time.Hour, time.Second, 5},
	} {
		server := &stripeServer{left: tt.left}
		v := server.vendor(t)
		synctest.Test(t, func(t *testing.T) {
			for range 5 {
				if done, err := v.send(t.Context(), many(3)); err != nil || len(done.taken) != 3 {
					t.Errorf("%s: %+v, %v", name, done, err)
				}
				time.Sleep(tt.pause)
			}
		})
		if server.sessions != tt.want || server.batches != 5 {
			t.Errorf("%s: %d sessions for %d batches, want %d for 5", name, server.sessions, server.batches, tt.want)
		}
	}
	server := &stripeServer{left: 15 * time.Minute}
	v := server.vendor(t)
	if _, err := v.send(t.Context(), many(3)); err != nil {
		t.Fatal(err)
	}
	server.sessions++ // The first session is revoked.
	if done, err := v.send(t.Context(), many(3)); err == nil || len(done.taken)+len(done.refused) > 0 {
		t.Errorf("a revoked session: %+v, %v; want an error alone", done, err)
	}
	if done, err := v.send(t.Context(), many(3)); err != nil || len(done.taken) != 3 {
		t.Errorf("after a revoked session: %+v, %v", done, err)
	}
}

// Without a session nothing is sent, so no event can have arrived.
func TestNoSession(t *testing.T) {
	for _, failure := range []int{500, 401, 400, 200} {
		server := &stripeServer{failure: failure}
		done, err := server.vendor(t).send(t.Context(), many(3))
		if _, lost := errors.AsType[*lostError](err); err == nil || lost || len(done.taken)+len(done.refused) > 0 || server.batches > 0 {
			t.Errorf("status %d: %+v, %v; lost %t", failure, done, err, lost)
		}
	}
}

// Fractions are refused here: Stripe would take the batch, and drop them.
func TestFractionsAtTheStream(t *testing.T) {
	events := many(5)
	events[2].Amount = "0.5"
	server := &stripeServer{left: time.Hour}
	done, err := server.vendor(t).send(t.Context(), events)
	if err != nil || len(done.taken) != 4 || len(done.refused) != 1 || done.refused[0].Identifier != events[2].Identifier || server.batches != 1 {
		t.Errorf("%+v, %v, %d batches", done, err, server.batches)
	}
}
