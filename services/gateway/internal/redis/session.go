package redis

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"switchyard.dev/services/gateway/internal/mcp/session"
	"switchyard.dev/services/platform/redisdb"
)

const (
	// maxSessions bounds the sessions of an organization that were ended and have not expired, and those with a level.
	maxSessions = 10_000
	// levels is how many levels there are: a score is the time at which a session expires, times this, plus its level.
	levels = 8
)

//go:embed keep_session.lua
var keepSessionText string

var keepSession = redis.NewScript(keepSessionText)

// Sessions implements session.Store: for each organization two sorted sets, of the sessions that were ended and of those
// with a level, by the times at which they expire.
type Sessions struct{ client *redisdb.Client }

// NewSessions returns the sessions in a Redis server.
func NewSessions(client *redisdb.Client) *Sessions { return &Sessions{client} }

func (s *Sessions) ended(organization string) string {
	return s.client.Key("mcp", "ended", organization)
}

func (s *Sessions) leveled(organization string) string {
	return s.client.Key("mcp", "level", organization)
}

// End implements session.Store.
func (s *Sessions) End(ctx context.Context, organization, id string, expires time.Time) error {
	return s.keep(ctx, s.ended(organization), id, expires, 0)
}

// SetLevel implements session.Store.
func (s *Sessions) SetLevel(ctx context.Context, organization, id string, expires time.Time, level int) error {
	return s.keep(ctx, s.leveled(organization), id, expires, level)
}

func (s *Sessions) keep(ctx context.Context, key, id string, expires time.Time, level int) error {
	score := expires.Unix()*levels + int64(level)
	kept, err := keepSession.Run(ctx, s.client, []string{key}, id, score, maxSessions, int64(session.Life/time.Second), levels).Int()
	switch {
	case err != nil:
		return fmt.Errorf("keep the state of a session: %w", err)
	case kept == 0:
		return session.ErrFull
	}
	return nil
}

// Get implements session.Store, in one round trip.
func (s *Sessions) Get(ctx context.Context, organization, id string) (session.State, error) {
	pipe := s.client.Pipeline()
	ended, leveled := pipe.ZScore(ctx, s.ended(organization), id), pipe.ZScore(ctx, s.leveled(organization), id)
	_, _ = pipe.Exec(ctx) // Each command has its own error.
	state := session.State{Ended: ended.Err() == nil, Level: -1}
	if leveled.Err() == nil {
		state.Level = int(int64(leveled.Val()) % levels)
	}
	for _, err := range []error{ended.Err(), leveled.Err()} {
		if err != nil && !errors.Is(err, redis.Nil) {
			return session.State{}, fmt.Errorf("look the state of a session up: %w", err)
		}
	}
	return state, nil
}
