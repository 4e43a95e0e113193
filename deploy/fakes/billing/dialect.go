package billing

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"switchyard.dev/deploy/fakes/fault"
)

const maxLagoBatch = 100

// openMeter takes a batch, or refuses it as a whole. It drops events that it has.
func (s *Server) openMeter(w http.ResponseWriter, r *http.Request) {
	refuse := func(detail string) { fault.WriteJSON(w, http.StatusBadRequest, problem(http.StatusBadRequest, detail)) }
	if r.Header.Get("Content-Type") != "application/cloudevents-batch+json" {
		refuse("invalid content type")
		return
	}
	var batch []struct {
		SpecVersion, Type, ID, Source, Subject string
		Time                                   time.Time
		Data                                   struct{ Value string }
	}
	if json.NewDecoder(r.Body).Decode(&batch) != nil || len(batch) == 0 {
		refuse("invalid events")
		return
	}
	events := make([]Event, len(batch))
	for i, c := range batch {
		if c.SpecVersion != "1.0" || c.Type == "" || c.ID == "" || c.Source == "" || c.Subject == "" || number(c.Data.Value, false) != nil {
			refuse("invalid event")
			return
		}
		events[i] = Event{"openmeter", c.Source + " " + c.ID, c.Type, c.Subject, c.Data.Value, c.Time.UTC()}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range events {
		if !s.has(e) {
			s.count(e)
		}
	}
	w.WriteHeader(http.StatusNoContent)
}

// lago takes a batch, or refuses it as a whole with the faults of each event, a known transaction_id among them.
func (s *Server) lago(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Events []struct {
			Transaction  string            `json:"transaction_id"`
			Subscription string            `json:"external_subscription_id"`
			Code         string            `json:"code"`
			Timestamp    int64             `json:"timestamp"`
			Properties   map[string]string `json:"properties"`
		} `json:"events"`
	}
	if json.NewDecoder(r.Body).Decode(&body) != nil || len(body.Events) == 0 || len(body.Events) > maxLagoBatch {
		lagoRefuse(w, map[string]any{"events": []string{"invalid_size"}})
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	events, faults := make([]Event, 0, len(body.Events)), make(map[string]any)
	for i, one := range body.Events {
		e := Event{"lago", one.Transaction, one.Code, one.Subscription, one.Properties["value"], time.Unix(one.Timestamp, 0).UTC()}
		events = append(events, e)
		switch {
		case e.Identifier == "":
			faults[strconv.Itoa(i)] = map[string][]string{"transaction_id": {"value_is_mandatory"}}
		case e.Name == "" || number(e.Value, false) != nil:
			faults[strconv.Itoa(i)] = map[string][]string{"properties": {"invalid_value"}}
		case s.has(e):
			faults[strconv.Itoa(i)] = map[string][]string{"transaction_id": {"value_already_exist"}}
		}
	}
	if len(faults) > 0 {
		lagoRefuse(w, faults)
		return
	}
	for _, e := range events {
		s.count(e)
	}
	fault.WriteJSON(w, http.StatusOK, body)
}

func lagoRefuse(w http.ResponseWriter, details map[string]any) {
	fault.WriteJSON(w, http.StatusUnprocessableEntity, map[string]any{
		"status": http.StatusUnprocessableEntity, "error": "Unprocessable Entity", "code": "validation_errors", "error_details": details,
	})
}
