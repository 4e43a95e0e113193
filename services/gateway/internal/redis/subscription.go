package redis

import (
	"context"
	_ "embed"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"switchyard.dev/services/gateway/internal/mcp/subscription"
	"switchyard.dev/services/platform/redisdb"
)

// maxSubscribers bounds the sessions of an organization that subscribe to resources.
const maxSubscribers = 500

//go:embed subscribe.lua
var subscribeText string

var subscribe = redis.NewScript(subscribeText)

// Subscriptions implements subscription.Store: a set for each session, a sorted set of the sessions of each organization
// by when they expire, and a channel for changes.
type Subscriptions struct{ client *redisdb.Client }

// NewSubscriptions returns the Subscriptions in a Redis server.
func NewSubscriptions(client *redisdb.Client) *Subscriptions { return &Subscriptions{client} }

func (s *Subscriptions) resources(of subscription.Session) string {
	return s.client.Key("mcp", "subscribed", of.Organization, of.ID)
}

func (s *Subscriptions) sessions(organization string) string {
	return s.client.Key("mcp", "subscribers", organization)
}

func (s *Subscriptions) changes() string { return s.client.Key("mcp", "subscribed") }

// textOf returns a session as it is published: two words.
func textOf(of subscription.Session) string {
	return url.QueryEscape(of.Organization) + " " + url.QueryEscape(of.ID)
}

// Add implements subscription.Store.
func (s *Subscriptions) Add(ctx context.Context, of subscription.Session, uri string, life time.Duration) error {
	keys := []string{s.resources(of), s.sessions(of.Organization)}
	added, err := subscribe.Run(ctx, s.client, keys, uri, of.ID, int64(life/time.Second), subscription.MaxURIs, maxSubscribers, s.changes(), textOf(of)).Int()
	switch {
	case err != nil:
		return fmt.Errorf("subscribe to a resource: %w", err)
	case added == 0:
		return subscription.ErrFull
	}
	return nil
}

// Remove implements subscription.Store.
func (s *Subscriptions) Remove(ctx context.Context, of subscription.Session, uri string) error {
	pipe := s.client.Pipeline()
	pipe.SRem(ctx, s.resources(of), uri)
	pipe.Publish(ctx, s.changes(), textOf(of))
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("unsubscribe from a resource: %w", err)
	}
	return nil
}

// List implements subscription.Store, in one round trip.
func (s *Subscriptions) List(ctx context.Context, of subscription.Session, life time.Duration) ([]string, error) {
	pipe := s.client.Pipeline()
	uris := pipe.SMembers(ctx, s.resources(of))
	pipe.Expire(ctx, s.resources(of), life)
	pipe.ZAddXX(ctx, s.sessions(of.Organization), redis.Z{Score: float64(time.Now().Add(life).Unix()), Member: of.ID})
	pipe.Expire(ctx, s.sessions(of.Organization), life)
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, fmt.Errorf("list the subscriptions of a session: %w", err)
	}
	return uris.Val(), nil
}

// Watch implements subscription.Store. The client reconnects by itself; what changes meanwhile is missed.
func (s *Subscriptions) Watch(ctx context.Context, f func(of subscription.Session)) error {
	return receive(ctx, s.client, s.changes(), func(text string) {
		organization, id, _ := strings.Cut(text, " ")
		of, err := url.QueryUnescape(organization)
		if err != nil {
			return // Another version's.
		}
		if id, err = url.QueryUnescape(id); err == nil {
			f(subscription.Session{Organization: of, ID: id})
		}
	})
}
