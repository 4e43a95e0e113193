package postgres

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"switchyard.dev/services/edge/internal/meter"
	"switchyard.dev/services/edge/internal/postgres/dbsql"
)

// maxGroups is the number of groups of an organization in an hour that have counts of their own.
const maxGroups = 500

// counters returns the sums of counts by organization, key, metric and minute, in the order of the counts.
func counters(counts []meter.Count) (sums []meter.Count) {
	for _, c := range counts {
		c.User, c.Tags = "", ""
		if last := len(sums) - 1; last >= 0 && sums[last].Counter == c.Counter {
			sums[last].Count += c.Count
			continue
		}
		sums = append(sums, c)
	}
	return sums
}

// groupKey identifies a group: calls of a key on a metric in an hour with the same user and tags.
type groupKey struct {
	organization, key, metric string
	hour                      time.Time
	user                      string
	tags                      string // a JSON object with sorted names
}

// group is how much a group grows.
type group struct {
	groupKey

	count int64
}

// noTagsKept is the object of a group without tags.
const noTagsKept = "{}"

// groups returns the sums of counts with a user or tags, sorted as rows are locked.
func groups(counts []meter.Count) []group {
	sums := make(map[groupKey]int64)
	for _, c := range counts {
		if c.User == "" && c.Tags == "" {
			continue
		}
		key := groupKey{c.Organization, c.Key, c.Metric, c.Minute.Truncate(time.Hour), c.User, cmp.Or(c.Tags, noTagsKept)}
		sums[key] += c.Count
	}
	all := make([]group, 0, len(sums))
	for key, count := range sums {
		all = append(all, group{key, count})
	}
	slices.SortFunc(all, func(a, b group) int {
		return cmp.Or(cmp.Compare(a.organization, b.organization), a.hour.Compare(b.hour), cmp.Compare(a.key, b.key),
			cmp.Compare(a.metric, b.metric), bytes.Compare(a.digest(), b.digest()))
	})
	return all
}

func (k groupKey) digest() []byte {
	return digestOf(fmt.Sprintf("%q %s", k.user, k.tags))
}

// otherDigest is the digest of the group of what an hour has no room for. No user and tags have it.
var otherDigest = digestOf(meter.Other)

func digestOf(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:16]
}

func (u *Usage) sumByGroup(ctx context.Context, q meter.Query) ([]meter.Total, error) {
	tags, err := json.Marshal(q.Tags)
	if err != nil {
		return nil, err
	}
	if q.Tags == nil {
		tags = []byte(noTagsKept)
	}
	after := q.After.Start
	if q.Period == meter.Whole {
		after = time.Unix(0, 0)
	}
	rows, err := dbsql.New(u.pool).SumUsageByGroup(ctx, dbsql.SumUsageByGroupParams{
		Period: string(q.Period), Dimensions: append([]string{}, q.Dimensions...),
		OrganizationID: q.Organization, KeyID: q.Key, Metric: q.Metric, Since: q.From, Before: q.To,
		UserID: q.User, Tags: tags, Filtered: q.User != "" || len(q.Tags) > 0,
		AfterOrganization: q.After.Organization, AfterKey: q.After.Key, AfterMetric: q.After.Metric, AfterStart: after,
		AfterLabels: append([]string{}, q.After.Labels...), Page: int32(q.Limit),
	})
	if err != nil {
		return nil, err
	}
	totals := make([]meter.Total, len(rows))
	for i, row := range rows {
		totals[i] = meter.Total{Organization: row.OrganizationID, Key: row.KeyID, Metric: row.Metric, Labels: row.Labels, Count: row.Count}
		if q.Period != meter.Whole {
			totals[i].Start = row.StartsAt.UTC()
		}
	}
	return totals, nil
}

// MergeGroups implements meter.Archive.
func (u *Usage) MergeGroups(ctx context.Context, before time.Time, limit int) (int, error) {
	row, err := dbsql.New(u.pool).MergeGroupsIntoDays(ctx, dbsql.MergeGroupsIntoDaysParams{Before: before, Page: int32(limit)})
	return int(row.Rows), err
}

// DropGroups implements meter.Archive.
func (u *Usage) DropGroups(ctx context.Context, before time.Time, limit int) (int, error) {
	n, err := dbsql.New(u.pool).DropUsageGroups(ctx, dbsql.DropUsageGroupsParams{Before: before, Page: int32(limit)})
	return int(n), err
}
