package control

import (
	"net/http"
	"net/url"
	"time"

	"switchyard.dev/services/edge/internal/chain"
	"switchyard.dev/services/edge/internal/meter"
	"switchyard.dev/services/platform/apierr"
)

// total is an item of the usage response.
type total struct {
	Organization string `json:"organization_id"`
	Key          string `json:"key_id"`
	Metric       string `json:"metric"`
	// Start is that of the period, if the usage was requested by period.
	Start *time.Time `json:"start,omitempty"`
	Count int64      `json:"count"`
}

func newTotal(t meter.Total) total {
	line := total{Organization: t.Organization, Key: t.Key, Metric: t.Metric, Count: t.Count}
	if !t.Start.IsZero() {
		line.Start = &t.Start
	}
	return line
}

func (t total) total() meter.Total {
	sum := meter.Total{Organization: t.Organization, Key: t.Key, Metric: t.Metric, Count: t.Count}
	if t.Start != nil {
		sum.Start = *t.Start
	}
	return sum
}

// usage returns the counts in [from, to) by organization, key and metric, and by period if one is given.
func (a *API) usage(w http.ResponseWriter, r *http.Request, _ *chain.Line) error {
	q, after, err := readPage[total](r, "organization_id", "key_id", "metric", "period", "from", "to")
	if err != nil {
		return err
	}
	query := meter.Query{
		Organization: q.Get("organization_id"), Key: q.Get("key_id"), Metric: q.Get("metric"), Period: meter.Period(q.Get("period")),
		After: after.value.total(), Limit: after.limit + 1,
	}
	if query.From, err = moment(q, "from"); err != nil {
		return err
	}
	if query.To, err = moment(q, "to"); err != nil {
		return err
	}
	if query, err = a.options.Retention.Complete(query, time.Now()); err != nil {
		return err
	}
	totals, err := a.options.Ledger.Sum(r.Context(), query)
	if err != nil {
		return err
	}
	answer := struct {
		Usage      []total `json:"usage"`
		NextCursor string  `json:"next_cursor"`
	}{Usage: []total{}}
	for i, t := range totals {
		if i == after.limit {
			answer.NextCursor = cursor(newTotal(totals[i-1]))
			break
		}
		answer.Usage = append(answer.Usage, newTotal(t))
	}
	return write(w, http.StatusOK, answer)
}

// moment parses an RFC 3339 time in the query; the zero time if it is absent.
func moment(q url.Values, name string) (time.Time, error) {
	text := q.Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, apierr.Invalid(name, "must be an RFC 3339 time")
	}
	return t.UTC(), nil
}
