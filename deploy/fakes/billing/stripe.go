package billing

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"switchyard.dev/deploy/fakes/fault"
)

const (
	// pastDays and future bound the timestamps that Stripe takes.
	pastDays = 35
	future   = 5 * time.Minute
	// maxStreamBatch is how many events the stream takes at once, sessionTime how long its sessions last.
	maxStreamBatch = 100
	sessionTime    = 15 * time.Minute
)

// refuseStripe answers 400 with a message in Stripe's form.
func refuseStripe(w http.ResponseWriter, message string) {
	fault.WriteJSON(w, http.StatusBadRequest, map[string]any{
		"error": map[string]any{"type": "invalid_request_error", "message": message},
	})
}

// stripe takes one event. A known identifier is an error of its own text.
func (s *Server) stripe(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		refuseStripe(w, "Invalid form")
		return
	}
	form := r.PostForm
	e := Event{
		Dialect: "stripe", Identifier: form.Get("identifier"), Name: form.Get("event_name"),
		Customer: form.Get("payload[stripe_customer_id]"), Value: form.Get("payload[value]"), Time: time.Now().UTC(),
	}
	if form.Has("timestamp") {
		seconds, err := strconv.ParseInt(form.Get("timestamp"), 10, 64)
		if err != nil {
			refuseStripe(w, "Invalid integer: timestamp")
			return
		}
		e.Time = time.Unix(seconds, 0).UTC()
	}
	if err := checkStripe(e); err != nil {
		refuseStripe(w, err.Error())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.has(e) {
		refuseStripe(w, "An event already exists with identifier "+e.Identifier+".")
		return
	}
	s.count(e)
	fault.WriteJSON(w, http.StatusOK, map[string]any{
		"object": "billing.meter_event", "identifier": e.Identifier, "event_name": e.Name, "timestamp": e.Time.Unix(),
		"payload": map[string]string{"stripe_customer_id": e.Customer, "value": e.Value},
	})
}

var (
	errFields = errors.New("event_name, payload[stripe_customer_id] and identifier are required here, the last with at most 100 characters")
	errValue  = errors.New("payload[value] must be a whole number")
	errTime   = errors.New("timestamp must be within the past 35 calendar days and at most 5 minutes in the future")
)

// checkStripe returns why Stripe does not count an event.
func checkStripe(e Event) error {
	age := time.Since(e.Time)
	switch {
	case e.Name == "" || e.Customer == "" || e.Identifier == "" || len(e.Identifier) > 100:
		return errFields
	case number(e.Value, true) != nil:
		return errValue
	case age > pastDays*24*time.Hour || age < -future:
		return errTime
	}
	return nil
}

// stripeSession begins a session of the stream.
func (s *Server) stripeSession(w http.ResponseWriter, _ *http.Request) {
	now := time.Now().UTC()
	token, end := rand.Text(), now.Add(sessionTime)
	s.mu.Lock()
	maps.DeleteFunc(s.sessions, func(_ string, end time.Time) bool { return end.Before(now) })
	s.sessions[token] = end
	s.mu.Unlock()
	fault.WriteJSON(w, http.StatusOK, map[string]any{
		"object": "v2.billing.meter_event_session", "id": "mes_" + token, "authentication_token": token, "livemode": false,
		"created": now.Format(time.RFC3339), "expires_at": end.Format(time.RFC3339),
	})
}

// stripeStream takes a batch of a session. It checks the events later, and drops those that it has or does not count.
func (s *Server) stripeStream(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !time.Now().Before(s.sessions[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]) {
		fault.WriteJSON(w, http.StatusUnauthorized, map[string]any{
			"error": map[string]any{"code": "billing_meter_event_session_expired", "message": "The temporary session token has expired."},
		})
		return
	}
	var batch struct {
		Events []struct {
			Name       string            `json:"event_name"`
			Identifier string            `json:"identifier"`
			Timestamp  time.Time         `json:"timestamp"`
			Payload    map[string]string `json:"payload"`
		} `json:"events"`
	}
	if err := json.NewDecoder(r.Body).Decode(&batch); err != nil || len(batch.Events) == 0 || len(batch.Events) > maxStreamBatch {
		refuseStripe(w, "events must have 1 to 100 events")
		return
	}
	for _, sent := range batch.Events {
		e := Event{
			Dialect: "stripe", Identifier: sent.Identifier, Name: sent.Name, Time: sent.Timestamp.UTC(),
			Customer: sent.Payload["stripe_customer_id"], Value: sent.Payload["value"],
		}
		if checkStripe(e) == nil && !s.has(e) {
			s.count(e)
		}
	}
	fault.WriteJSON(w, http.StatusOK, struct{}{})
}
