package api

import (
	"context"
	"encoding/json"
	"net/http"

	"switchyard.dev/services/gateway/internal/operations/status"
)

// unready explains a failing check. The errors' own texts are only logged.
var unready = map[string]string{
	"lifecycle": "the service is stopping; it finishes the requests in flight and accepts no new ones",
	"ledger":    "ledger rows can't be stored: the spool is full (GATEWAY_SPOOL_LIMIT), or both its disk and Postgres fail; completions are refused",
	"settings":  "the settings of operators and organizations could not be read from Postgres for longer than GATEWAY_SETTINGS_STALE; the last known settings apply",
}

// notReady is a failing check and its explanation.
type notReady struct {
	Check  string `json:"check"`
	Reason string `json:"reason"`
}

// Ready returns a handler that responds 200 if every check passes and 503 otherwise, with each check's state and an
// explanation of each failure.
func Ready(checks func(ctx context.Context) []status.Check) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := struct {
			Status   string            `json:"status"`
			Checks   map[string]string `json:"checks"`
			NotReady []notReady        `json:"not_ready"`
		}{"ok", make(map[string]string), []notReady{}}
		code := http.StatusOK
		for _, check := range checks(r.Context()) {
			answer.Checks[check.Name] = "ok"
			if check.Err == nil {
				continue
			}
			reason, known := unready[check.Name]
			if !known {
				reason = "the check fails; the log says why"
			}
			answer.Checks[check.Name] = "failing"
			answer.NotReady = append(answer.NotReady, notReady{check.Name, reason})
			code, answer.Status = http.StatusServiceUnavailable, "unavailable"
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(answer)
	})
}
