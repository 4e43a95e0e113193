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

// maxEnded bounds the sessions that an organization has ended and that have not expired.
const maxEnded = 10_000

//go:embed end_session.lua
var endSessionText string

var endSession = redis.NewScript(endSessionText)

// EndedSessions implements session.Ended: a sorted set for each organization, by the times at which they expire.
type EndedSessions struct{ client *redisdb.Client }

// NewEndedSessions returns the ended sessions in a Redis server.
func NewEndedSessions(client *redisdb.Client) *EndedSessions { return &EndedSessions{client} }

func (e *EndedSessions) key(organization string) string {
	return e.client.Key("mcp", "ended", organization)
}

// Add implements session.Ended.
func (e *EndedSessions) Add(ctx context.Context, organization, id string, expires time.Time) error {
	kept, err := endSession.Run(ctx, e.client, []string{e.key(organization)}, id, expires.Unix(), maxEnded, int64(session.Life/time.Second)).Int()
	switch {
	case err != nil:
		return fmt.Errorf("end session: %w", err)
	case kept == 0:
		return session.ErrFull
	}
	return nil
}

// Has implements session.Ended.
func (e *EndedSessions) Has(ctx context.Context, organization, id string) (bool, error) {
	err := e.client.ZScore(ctx, e.key(organization), id).Err()
	switch {
	case errors.Is(err, redis.Nil):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look an ended session up: %w", err)
	}
	return true, nil
}
