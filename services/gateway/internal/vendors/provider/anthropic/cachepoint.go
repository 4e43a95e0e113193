package anthropic

import "switchyard.dev/services/gateway/internal/vendors/provider"

// cacheControl is a point of the prompt cache. Source: Anthropic documentation, "Prompt caching".
type cacheControl struct {
	Type string `json:"type"`
	// TTL is "1h", or empty for five minutes.
	TTL string `json:"ttl,omitempty"`
}

// newCachePoint returns nil for no life.
func newCachePoint(life provider.CacheLife) *cacheControl {
	if life == "" {
		return nil
	}
	point := &cacheControl{Type: "ephemeral"}
	if life == provider.CacheLong {
		point.TTL = string(life)
	}
	return point
}

// maxCachePoints is how many points a request may have.
const maxCachePoints = 4

// LimitCachePoints changes the lives of a request's points, in their order: it removes all but the last four, and makes
// a long one behind a short one short. The vendor refuses more, and another order.
func LimitCachePoints(lives []provider.CacheLife) {
	short := false
	for i := range lives {
		switch {
		case i < len(lives)-maxCachePoints:
			lives[i] = ""
			continue
		case short:
			lives[i] = provider.CacheShort
		}
		short = short || lives[i] == provider.CacheShort
	}
}

// limitCachePoints limits the request's points.
func (r *request) limitCachePoints() {
	var points []**cacheControl
	for i := range r.System {
		if r.System[i].Cache != nil {
			points = append(points, &r.System[i].Cache)
		}
	}
	for _, m := range r.Messages {
		for i := range m.Content {
			if b, ok := m.Content[i].(block); ok && b.Cache != nil {
				m.Content[i] = &b
				points = append(points, &b.Cache)
			}
		}
	}
	lives := make([]provider.CacheLife, len(points))
	for i, point := range points {
		lives[i] = provider.CacheLifeOf((*point).TTL)
	}
	LimitCachePoints(lives)
	for i, point := range points {
		*point = newCachePoint(lives[i])
	}
}
