package api

import (
	"context"
	"crypto/sha256"
	"net"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"switchyard.dev/services/platform/apierr"
)

const (
	// tokenPerMinute bounds the requests with one decision token, missesPerMinute those of one address with tokens that
	// don't exist. A known token is served whatever its address has missed: the edge calls from one address for all.
	tokenPerMinute, missesPerMinute = 60, 60
	// mostCounted is how many tokens, and how many addresses, are counted at a time.
	mostCounted = 10_000
)

// decisionAttempts counts requests with decision tokens on this replica. Safe for concurrent use.
type decisionAttempts struct{ tokens, misses *minuteCounter }

func newDecisionAttempts() *decisionAttempts {
	return &decisionAttempts{newMinuteCounter(tokenPerMinute), newMinuteCounter(missesPerMinute)}
}

// token counts a request with a token, and refuses it beyond the limit.
func (d *decisionAttempts) token(hash [sha256.Size]byte, now time.Time) error {
	return d.tokens.count(string(hash[:]), now)
}

// miss counts a token of an address that doesn't exist, and refuses it beyond the limit.
func (d *decisionAttempts) miss(address string, now time.Time) error {
	return d.misses.count(address, now)
}

// minuteCounter counts by names in windows of a minute.
type minuteCounter struct {
	limit int

	mu    sync.Mutex
	names *lru.Cache[string, *minute]
}

type minute struct {
	began time.Time
	count int
}

func newMinuteCounter(limit int) *minuteCounter {
	names, err := lru.New[string, *minute](mostCounted)
	if err != nil {
		panic(err) // A positive size can't fail.
	}
	return &minuteCounter{limit: limit, names: names}
}

func (c *minuteCounter) count(name string, now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, ok := c.names.Get(name)
	if !ok || now.Sub(m.began) >= time.Minute {
		m = &minute{began: now}
		c.names.Add(name, m)
	}
	if m.count++; m.count <= c.limit {
		return nil
	}
	limited := apierr.New(apierr.KindRateLimited, apierr.ReasonRateLimited, "too many requests for decisions; try again later")
	limited.RetryAfter = m.began.Add(time.Minute).Sub(now)
	return limited
}

// addressOf returns the address of the connection that a call came on. On the JSON face it is the last one that the
// transcoding adds.
func addressOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		if host, _, err := net.SplitHostPort(p.Addr.String()); err == nil {
			return host
		}
		return p.Addr.String()
	}
	md, _ := metadata.FromIncomingContext(ctx)
	hops := md.Get("x-forwarded-for")
	if len(hops) == 0 {
		return ""
	}
	all := hops[len(hops)-1]
	return strings.TrimSpace(all[strings.LastIndexByte(all, ',')+1:])
}
