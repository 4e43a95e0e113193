package redis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"switchyard.dev/services/platform/redisdb"
)

// Claims implements toolcall.Claims: a key for each ticket that was used, until the ticket expires.
type Claims struct{ client *redisdb.Client }

// NewClaims returns the claims in a Redis server.
func NewClaims(client *redisdb.Client) *Claims { return &Claims{client} }

func (c *Claims) key(organization, id string) string {
	return c.client.Key("mcp", "used", organization, id)
}

// claimMargin keeps a claim longer than its ticket is valid, as the clocks of replicas differ.
const claimMargin = time.Minute

// Claim implements toolcall.Claims. A ticket that has expired was used.
func (c *Claims) Claim(ctx context.Context, organization, id string, expires time.Time) (first bool, err error) {
	life := time.Until(expires) + claimMargin
	if life <= 0 {
		return false, nil
	}
	_, err = c.client.SetArgs(ctx, c.key(organization, id), 1, redis.SetArgs{Mode: "NX", TTL: life}).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("claim a ticket: %w", err)
	}
	return true, nil
}

// Unclaim implements toolcall.Claims.
func (c *Claims) Unclaim(ctx context.Context, organization, id string) error {
	if err := c.client.Del(ctx, c.key(organization, id)).Err(); err != nil {
		return fmt.Errorf("unclaim a ticket: %w", err)
	}
	return nil
}
