package api

import (
	"net/http"
	"net/url"
	"time"

	"switchyard.dev/services/edge/internal/meter"
	"switchyard.dev/services/platform/apierr"
)

// total is a line of the usage answer.
type total struct {
	Organization string `json:"organization_id"`
	Key          string `json:"key_id"`
	Metric       string `json:"metric"`
	Count        int64  `json:"count"`
}

// usage sums up the minutes that begin in [from, to) by organization, key and metric.
func (a *API) usage(w http.ResponseWriter, r *http.Request, _ *line) error {
	q, after, err := readPage[total](r, "organization_id", "metric", "from", "to")
	if err != nil {
		return err
	}
	from, err := moment(q, "from", time.Unix(0, 0))
	if err != nil {
		return err
	}
	to, err := moment(q, "to", time.Now().Add(time.Hour)) // all there is, whoever's clock is ahead
	if err != nil {
		return err
	}
	totals, err := a.options.Ledger.Sum(r.Context(), meter.Query{
		Organization: q.Get("organization_id"), Metric: q.Get("metric"), From: from, To: to,
		After: meter.Total(after.value), Limit: after.limit + 1,
	})
	if err != nil {
		return err
	}
	answer := struct {
		Usage      []total `json:"usage"`
		NextCursor string  `json:"next_cursor"`
	}{Usage: []total{}}
	for i, t := range totals {
		if i == after.limit {
			answer.NextCursor = cursor(total(totals[i-1]))
			break
		}
		answer.Usage = append(answer.Usage, total(t))
	}
	return write(w, http.StatusOK, answer)
}

// moment reads an RFC 3339 time from the query.
func moment(q url.Values, name string, fallback time.Time) (time.Time, error) {
	text := q.Get(name)
	if text == "" {
		return fallback, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, apierr.Invalid(name, "must be an RFC 3339 time")
	}
	return t, nil
}
