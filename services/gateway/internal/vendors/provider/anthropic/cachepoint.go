package anthropic

import "switchyard.dev/services/gateway/internal/vendors/provider"

// cacheControl is a point of the prompt cache. Source: Anthropic documentation, "Prompt caching".
type cacheControl struct {
	Type string `json:"type"`
	// TTL is "1h", or empty for five minutes.
	TTL string `json:"ttl,omitempty"`
}

func newCachePoint(life provider.CacheLife) *cacheControl {
	point := &cacheControl{Type: "ephemeral"}
	if life == provider.CacheLong {
		point.TTL = string(life)
	}
	return point
}

// maxCachePoints is how many points a request may have.
const maxCachePoints = 4

// limitCachePoints keeps the last points, and makes a long one behind a short one short: the vendor refuses more, and
// another order.
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
	for len(points) > maxCachePoints {
		*points[0] = nil
		points = points[1:]
	}
	short := false
	for _, point := range points {
		if short {
			(*point).TTL = ""
		}
		short = short || (*point).TTL == ""
	}
}
