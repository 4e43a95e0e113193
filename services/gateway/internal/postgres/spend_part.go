package postgres

import (
	"slices"
	"time"

	"switchyard.dev/services/gateway/internal/money/spend"
	"switchyard.dev/services/gateway/internal/postgres/dbsql"
)

// The sources of sums in the query ListSpend.
const sourceGroup, sourceModel = "group", "model"

// spendSources returns the smallest sums that a page and its total can be read from.
func spendSources(q spend.Query) (page, total string) {
	page, total = sourceModel, sourceModel
	if q.Filter.Key != "" || q.Filter.User != "" || len(q.Filter.Tags) > 0 {
		return sourceGroup, sourceGroup
	}
	finer := func(d spend.Dimension) bool { return d != spend.DimensionModel && d != spend.DimensionProvider }
	if q.WithTags || slices.ContainsFunc(q.Grouping, finer) {
		page = sourceGroup
	}
	return page, total
}

// spendParts divides the buckets of a report into parts that are read one after another until a page is full. Most groups
// of a rollup are rows of a fine report, so that a page takes few of its buckets; a coarse report takes more of them, and
// the rows of the part before tell how many.
type spendParts struct {
	buckets []dbsql.ListSpendBucketsRow
	until   time.Time
	// groups is how many groups the parts had at most, rows how many rows they made.
	groups, rows int
}

// next returns the end of the part that begins at since, of which want rows are missing. A part has at least as many
// groups as all before it, so there are few, and at most 8 times as many, so that a part without rows doesn't let the next
// one read everything.
func (p *spendParts) next(since time.Time, want int) time.Time {
	need := want
	if p.groups > 0 {
		need = min(max(want*p.groups/max(p.rows, 1)*5/4, p.groups), 8*p.groups)
	}
	i, _ := slices.BinarySearchFunc(p.buckets, since, func(b dbsql.ListSpendBucketsRow, at time.Time) int { return b.Bucket.Compare(at) })
	for ; i < len(p.buckets) && need > 0; i++ {
		need -= int(p.buckets[i].Groups)
		p.groups += int(p.buckets[i].Groups)
	}
	if i < len(p.buckets) {
		return p.buckets[i].Bucket
	}
	return p.until
}
