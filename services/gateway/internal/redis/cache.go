package redis

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"switchyard.dev/services/gateway/internal/serving/cache"
	"switchyard.dev/services/platform/redisdb"
)

const (
	// floorTTL is how long an organization's epoch is stored: longer than any request that was in flight at the purge.
	floorTTL = time.Hour
	// scanCount is how many keys one step of a purge looks at.
	scanCount = 1000
)

//go:embed keep.lua
var keepText string

var keep = redis.NewScript(keepText)

// Answers implements cache.Store. Keys of an organization share a hash slot:
// <prefix>:cache:{<organization>}:<epoch>:<answer> and, if it was purged recently, its epoch.
type Answers struct{ client *redisdb.Client }

// NewAnswers returns the answers in a Redis server.
func NewAnswers(client *redisdb.Client) *Answers { return &Answers{client} }

func (a *Answers) of(organization string) string {
	return a.client.Prefix + ":cache:{" + organization + "}:"
}

func (a *Answers) floor(organization string) string { return a.of(organization) + "epoch" }

func (a *Answers) key(k cache.Key) string {
	return a.of(k.Organization) + strconv.FormatInt(k.Epoch, 10) + ":" + k.Answer
}

// Get returns the answer and the organization's epoch in one round trip.
func (a *Answers) Get(ctx context.Context, k cache.Key) ([]byte, int64, error) {
	values, err := a.client.MGet(ctx, a.floor(k.Organization), a.key(k)).Result()
	if err != nil {
		return nil, 0, fmt.Errorf("get answer: %w", err)
	}
	var newest int64
	if text, ok := values[0].(string); ok {
		if newest, err = strconv.ParseInt(text, 10, 64); err != nil {
			return nil, 0, errors.New("get answer: the epoch is not a number")
		}
	}
	if text, ok := values[1].(string); ok {
		return []byte(text), newest, nil
	}
	return nil, newest, nil
}

// Put stores an answer unless its epoch has ended.
func (a *Answers) Put(ctx context.Context, k cache.Key, sealed []byte, ttl time.Duration) error {
	keys := []string{a.floor(k.Organization), a.key(k)}
	if err := keep.Run(ctx, a.client, keys, k.Epoch, sealed, ttl.Milliseconds()).Err(); err != nil {
		return fmt.Errorf("keep answer: %w", err)
	}
	return nil
}

// Purge raises the epoch first, so that no answer is stored behind the scan. A scan finds every key that exists from
// its beginning to its end.
func (a *Answers) Purge(ctx context.Context, organization string, epoch int64) (int, error) {
	if err := keep.Run(ctx, a.client, []string{a.floor(organization), a.floor(organization)}, epoch, epoch, floorTTL.Milliseconds()).Err(); err != nil {
		return 0, fmt.Errorf("raise epoch: %w", err)
	}
	purged := 0
	for cursor := uint64(0); ; {
		keys, next, err := a.client.Scan(ctx, cursor, a.of(organization)+"*:*", scanCount).Result()
		if err != nil {
			return purged, fmt.Errorf("find answers: %w", err)
		}
		n, err := a.delete(ctx, keys)
		purged += n
		if err != nil {
			return purged, err
		}
		if cursor = next; cursor == 0 {
			return purged, nil
		}
	}
}

func (a *Answers) delete(ctx context.Context, keys []string) (int, error) {
	if len(keys) == 0 {
		return 0, nil
	}
	n, err := a.client.Unlink(ctx, keys...).Result()
	if err != nil {
		return 0, fmt.Errorf("delete answers: %w", err)
	}
	return int(n), nil
}
