package redis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"switchyard.dev/services/gateway/internal/capacity/quota"
)

// Snapshots implements quota.Store in one round trip.
func (q *Quotas) Snapshots(ctx context.Context, epoch string, subjects []quota.Subject) ([]quota.Snapshot, time.Time, error) {
	pipe := q.client.Pipeline()
	clock := pipe.Time(ctx)
	id := pipe.HGet(ctx, q.client.Key("quota", "epoch"), "id")
	hashes := make([]*redis.MapStringStringCmd, len(subjects))
	for i, s := range subjects {
		hashes[i] = pipe.HGetAll(ctx, q.client.Key("quota", epoch, "subject", string(s)))
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) {
		return nil, time.Time{}, fmt.Errorf("read quotas: %w", err)
	}
	if id.Val() != epoch {
		return nil, clock.Val(), quota.ErrEpoch
	}
	all := make([]quota.Snapshot, len(subjects))
	for i, hash := range hashes {
		all[i] = snapshotOf(hash.Val(), clock.Val())
	}
	return all, clock.Val(), nil
}

// snapshotOf decodes the hash of a subject. What can't be parsed is another version's and is skipped.
func snapshotOf(hash map[string]string, now time.Time) (s quota.Snapshot) {
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(hash[name], 10, 64)
		return n
	}
	moment := func(name string) time.Time {
		if n := number(name); n > 0 {
			return time.UnixMilli(n)
		}
		return time.Time{}
	}
	s.Outside = quota.Outside{Blocked: moment("blocked"), Cut: moment("cut"), Unseen: number("unseen"), From: moment("from"), Until: moment("till")}
	s.Outside.Factor, _ = strconv.ParseFloat(hash["factor"], 64)
	s.Window.Add(now.Unix(), quota.Amount{})
	for name, text := range hash {
		slot, err := strconv.ParseInt(name[min(1, len(name)):], 10, 64)
		n, err2 := strconv.ParseInt(text, 10, 64)
		if err != nil || err2 != nil || slot < 0 || slot > now.Unix() {
			continue
		}
		switch {
		case strings.HasPrefix(name, "t"):
			s.Window.Add(slot, quota.Amount{Tokens: n})
		case strings.HasPrefix(name, "n"):
			s.Window.Add(slot, quota.Amount{Requests: n})
		}
	}
	return s
}
