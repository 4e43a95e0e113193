package demo

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// counters holds the number of billed calls by metric.
type counters map[string]int64

const (
	billTimeout = 15 * time.Second
	maxPages    = 100
)

// usage returns what the organization was billed so far.
func (s *show) usage(ctx context.Context) (counters, error) {
	total := counters{}
	query := url.Values{"organization_id": {s.env.OrganizationID}}
	for range maxPages {
		a, err := s.do(ctx, call{
			method: http.MethodGet, url: s.env.EdgeURL + "/admin/v1/usage?" + query.Encode(), bearer: s.env.OperatorToken,
		})
		if err != nil {
			return nil, err
		}
		var page struct {
			Usage []struct {
				Metric string `json:"metric"`
				Count  int64  `json:"count"`
			} `json:"usage"`
			NextCursor string `json:"next_cursor"`
		}
		if err := a.decode(http.StatusOK, &page); err != nil {
			return nil, err
		}
		for _, line := range page.Usage {
			total[line.Metric] += line.Count
		}
		if page.NextCursor == "" {
			return total, nil
		}
		query.Set("cursor", page.NextCursor)
	}
	return nil, fmt.Errorf("the usage has more than %d pages", maxPages)
}

// bill waits until every call of the demo is counted. Other clients may be calling at the same time, so a higher
// count is right too.
func (s *show) bill(ctx context.Context, before counters) error {
	var now counters
	err := until(ctx, billTimeout, "the count of every call", func(ctx context.Context) (bool, error) {
		var err error
		if now, err = s.usage(ctx); err != nil {
			return false, err
		}
		return counted(before, now, s.expected), nil
	})
	for _, metric := range slices.Sorted(maps.Keys(now)) {
		s.Line("    %-20s %+d %s", metric, now[metric]-before[metric], s.Faint(fmt.Sprintf("total %d", now[metric])))
	}
	return err
}

func counted(before, now counters, expected map[string]int64) bool {
	for metric, calls := range expected {
		if now[metric]-before[metric] < calls {
			return false
		}
	}
	return true
}
