package control

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"switchyard.dev/services/edge/internal/chain"
	"switchyard.dev/services/edge/internal/meter"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/tag"
)

// total is an item of the usage response.
type total struct {
	Organization string `json:"organization_id"`
	Key          string `json:"key_id"`
	Metric       string `json:"metric"`
	// Start is that of the period, if the usage was requested by period.
	Start *time.Time `json:"start,omitempty"`
	// Groups has the values of group_by, if that was given.
	Groups map[string]string `json:"groups,omitempty"`
	Count  int64             `json:"count"`
}

func newTotal(t meter.Total, dimensions []string) total {
	line := total{Organization: t.Organization, Key: t.Key, Metric: t.Metric, Count: t.Count}
	if !t.Start.IsZero() {
		line.Start = &t.Start
	}
	for i, label := range t.Labels {
		if line.Groups == nil {
			line.Groups = make(map[string]string)
		}
		line.Groups[dimensions[i]] = label
	}
	return line
}

func (t total) total(dimensions []string) meter.Total {
	sum := meter.Total{Organization: t.Organization, Key: t.Key, Metric: t.Metric, Count: t.Count}
	if t.Start != nil {
		sum.Start = *t.Start
	}
	for _, d := range dimensions {
		sum.Labels = append(sum.Labels, t.Groups[d])
	}
	return sum
}

// maxDimensions bounds what usage is grouped by, maxFilters the tags that it is filtered by.
const (
	maxDimensions = 4
	maxFilters    = 10
)

// dimensionsOf reads group_by: user and tag.NAME, each once.
func dimensionsOf(text string) (dimensions []string, err error) {
	if text == "" {
		return nil, nil
	}
	for d := range strings.SplitSeq(text, ",") {
		name, ofTag := strings.CutPrefix(d, meter.DimensionTag)
		if slices.Contains(dimensions, d) || d != meter.DimensionUser && (!ofTag || !tag.Name(name)) {
			return nil, apierr.Invalid("group_by", "must be a list of user and tag.NAME, each once, separated by commas")
		}
		dimensions = append(dimensions, d)
	}
	if len(dimensions) > maxDimensions {
		return nil, apierr.Invalid("group_by", "must have at most 4 items")
	}
	return dimensions, nil
}

// tagsOf reads the filters of tags, each name=value.
func tagsOf(filters []string) (map[string]string, error) {
	if len(filters) > maxFilters {
		return nil, apierr.Invalid("tag", "must be given at most 10 times")
	}
	tags := make(map[string]string)
	for _, filter := range filters {
		name, value, ok := strings.Cut(filter, "=")
		if _, twice := tags[name]; !ok || twice {
			return nil, apierr.Invalid("tag", "must be name=value, each name once")
		}
		tags[name] = value
	}
	if err := tag.Check("tag", tags); err != nil {
		return nil, err
	}
	return tags, nil
}

// usage returns the counts in [from, to) by organization, key and metric, by period if one is given, and by the user and
// tags of group_by.
func (a *API) usage(w http.ResponseWriter, r *http.Request, _ *chain.Line) error {
	q, after, err := readPage[total](r, "organization_id", "key_id", "metric", "period", "from", "to", "group_by", "user_id", "tag")
	if err != nil {
		return err
	}
	dimensions, err := dimensionsOf(q.Get("group_by"))
	if err != nil {
		return err
	}
	query := meter.Query{
		Organization: q.Get("organization_id"), Key: q.Get("key_id"), Metric: q.Get("metric"), Period: meter.Period(q.Get("period")),
		User: q.Get("user_id"), Dimensions: dimensions, After: after.value.total(dimensions), Limit: after.limit + 1,
	}
	if query.Tags, err = tagsOf(q["tag"]); err != nil {
		return err
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
			answer.NextCursor = cursor(newTotal(totals[i-1], dimensions))
			break
		}
		answer.Usage = append(answer.Usage, newTotal(t, dimensions))
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
