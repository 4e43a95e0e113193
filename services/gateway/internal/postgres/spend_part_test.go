package postgres

import (
	"fmt"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/money/spend"
	"switchyard.dev/services/gateway/internal/postgres/dbsql"
)

// A page is read in few parts, which hold no more buckets than it needs, however many groups become one row.
func TestSpendParts(t *testing.T) {
	const days = 92
	begin := time.Date(2026, 8, 21, 0, 0, 0, 0, time.UTC)
	until := begin.AddDate(0, 0, days)
	for name, tt := range map[string]struct {
		groups, rows int // Of a day.
		want         int
		parts, read  int
	}{
		"each group is a row":     {500, 500, 1000, 1, 2},
		"ten groups are a row":    {500, 50, 1000, 3, 36},
		"a row for each day":      {500, 1, 1000, 3, days},
		"no rows":                 {500, 0, 1000, 3, days},
		"groups that aren't full": {20, 20, 1000, 2, days},
		"no groups":               {0, 0, 1000, 1, days},
	} {
		t.Run(name, func(t *testing.T) {
			parts := spendParts{until: until}
			for d := range days {
				parts.buckets = append(parts.buckets, dbsql.ListSpendBucketsRow{Bucket: begin.AddDate(0, 0, d), Groups: int32(tt.groups + 1)})
			}
			if tt.groups == 0 {
				parts.buckets = nil
			}
			n, want, since := 0, tt.want, begin
			for ; want > 0 && since.Before(until); n++ {
				end := parts.next(since, want)
				if !end.After(since) {
					t.Fatalf("part %d ends at %s, before it begins", n, end)
				}
				made := min(want, tt.rows*int(end.Sub(since).Hours()/24))
				parts.rows += made
				since, want = end, want-made
			}
			if read := int(since.Sub(begin).Hours() / 24); n != tt.parts || read != tt.read {
				t.Errorf("%d parts of %d days, want %d of %d", n, read, tt.parts, tt.read)
			}
		})
	}
}

// Sums by model are enough unless something finer is asked for.
func TestSpendSources(t *testing.T) {
	for _, tt := range []struct {
		q           spend.Query
		page, total string
	}{
		{spend.Query{}, sourceModel, sourceModel},
		{spend.Query{Grouping: spend.Grouping{"model", "provider"}, Filter: spend.Filter{Model: "m", Provider: "p"}}, sourceModel, sourceModel},
		{spend.Query{Grouping: spend.Grouping{"model", "user"}}, sourceGroup, sourceModel},
		{spend.Query{Grouping: spend.Grouping{"key"}}, sourceGroup, sourceModel},
		{spend.Query{Grouping: spend.Grouping{"tag.team"}}, sourceGroup, sourceModel},
		{spend.Query{WithTags: true}, sourceGroup, sourceModel},
		{spend.Query{Filter: spend.Filter{Key: "k"}}, sourceGroup, sourceGroup},
		{spend.Query{Filter: spend.Filter{User: "u"}}, sourceGroup, sourceGroup},
		{spend.Query{Filter: spend.Filter{Tags: map[string]string{"team": "web"}}}, sourceGroup, sourceGroup},
	} {
		t.Run(fmt.Sprint(tt.q.Grouping, tt.q.Filter, tt.q.WithTags), func(t *testing.T) {
			if page, total := spendSources(tt.q); page != tt.page || total != tt.total {
				t.Errorf("%s and %s, want %s and %s", page, total, tt.page, tt.total)
			}
		})
	}
}
