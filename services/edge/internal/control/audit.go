package control

import (
	"net/http"
	"time"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/chain"
)

// entry is an entry of the audit.
type entry struct {
	At           time.Time      `json:"occurred_at"`
	Actor        string         `json:"actor"`
	Action       string         `json:"action"`
	Organization string         `json:"organization_id"`
	Key          string         `json:"key_id"`
	Request      string         `json:"request_id"`
	Details      map[string]any `json:"details"`
}

// audit lists the changes of keys, tokens, links of the portal, limits, plans, credits, origins, alert rules and exports, newest first.
func (a *API) audit(w http.ResponseWriter, r *http.Request, _ *chain.Line) error {
	q, before, err := readPage[int64](r, "organization_id", "key_id")
	if err != nil {
		return err
	}
	found, err := a.options.Keys.Audit(r.Context(), apikey.AuditQuery{
		Organization: q.Get("organization_id"), Key: q.Get("key_id"), Before: before.value, Limit: before.limit + 1,
	})
	if err != nil {
		return err
	}
	answer := struct {
		Entries    []entry `json:"entries"`
		NextCursor string  `json:"next_cursor"`
	}{Entries: []entry{}}
	for i, e := range found {
		if i == before.limit {
			answer.NextCursor = cursor(found[i-1].ID)
			break
		}
		answer.Entries = append(answer.Entries, entry{
			At: e.At, Actor: e.Actor.Name, Action: e.Action, Organization: e.Organization,
			Key: e.Key, Request: e.Actor.Request, Details: e.Details,
		})
	}
	return write(w, http.StatusOK, answer)
}
