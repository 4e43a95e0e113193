package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"switchyard.dev/deploy/dev/stack"
)

const (
	// feedPage is the maximum size of a page.
	feedPage = 100
	// feedRounds is how often each page is requested.
	feedRounds = 1000
	feedPath   = "/v1/notifications?user_id=load&limit=100"
)

// measureFeed pages through a large inbox to its end, then compares the first page with the last, in turn.
func (r *notifyRig) measureFeed(ctx context.Context, records int, out *strings.Builder) error {
	if err := r.fillInbox(ctx, records); err != nil {
		return err
	}
	var page struct {
		Records []struct{} `json:"notifications"`
		Next    string     `json:"next_cursor"`
	}
	cursor, pages, seen := "", 0, 0
	began := time.Now()
	for {
		page.Records, page.Next = nil, ""
		if err := r.callRetrying(ctx, http.MethodGet, at(cursor), nil, &page); err != nil {
			return err
		}
		pages, seen = pages+1, seen+len(page.Records)
		if page.Next == "" {
			break
		}
		cursor = page.Next
	}
	if seen != records {
		return fmt.Errorf("%d of %d records were listed", seen, records)
	}
	walked := time.Since(began)
	first, last := make([]time.Duration, 0, feedRounds), make([]time.Duration, 0, feedRounds)
	for range feedRounds {
		for where, times := range map[string]*[]time.Duration{"": &first, cursor: &last} {
			began := time.Now()
			if err := r.call(ctx, http.MethodGet, at(where), nil, &page); err != nil {
				return err
			}
			*times = append(*times, time.Since(began))
		}
	}
	printf(out, "\ninbox of %d records, pages of %d; all %d pages in turn took %s\n", records, feedPage, pages, walked.Round(100*time.Millisecond))
	for _, q := range []struct {
		name string
		part float64
	}{{"p50", 0.5}, {"p99", 0.99}} {
		a, b := quantile(first, q.part), quantile(last, q.part)
		printf(out, "  %s  page 1 %s, page %d %s: %.2fx\n", q.name, micros(a), pages, micros(b), ratio(b, a))
	}
	return nil
}

func at(cursor string) string {
	if cursor == "" {
		return feedPath
	}
	return feedPath + "&cursor=" + cursor
}

// quantile returns a quantile of durations, which it sorts.
func quantile(all []time.Duration, part float64) time.Duration {
	slices.Sort(all)
	return all[int(part*float64(len(all)-1))]
}

// fillInbox writes the rows itself, because sending a million notifications takes too long.
func (r *notifyRig) fillInbox(ctx context.Context, records int) error {
	for _, statement := range []string{
		`INSERT INTO notify.inbox_counter (organization_id, user_id, unread, version) VALUES ($1, 'load', $2::bigint, $2::bigint)`,
		`INSERT INTO notify.inbox_record (id, organization_id, user_id, seq, notification_id, subject, message, url, created_at)
		 SELECT gen_random_uuid(), $1, 'load', n, gen_random_uuid(), 'Order ' || n, repeat('It is on its way. ', 5), '/orders/' || n, now()
		 FROM generate_series(1, $2::bigint) AS n`,
	} {
		if _, err := r.db.Exec(ctx, statement, stack.Organization, records); err != nil {
			return fmt.Errorf("fill the inbox: %w", err)
		}
	}
	_, err := r.db.Exec(ctx, "VACUUM ANALYZE notify.inbox_record")
	return err
}
