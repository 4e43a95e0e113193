// Package kv updates small texts that the replicas of a service share, such as the state of a circuit breaker or of a
// rate limit. A Store swaps a text only if it is still the text that the writer read, so that no replica overwrites
// another's update. An Updater reads, decides and swaps; while the store is unreachable, its replica decides by its
// local state. Package redisdb implements Store in Redis, kvtest in memory.
package kv

import (
	"context"
	"strings"
	"time"
)

// Store is a compare-and-swap store of small texts by key. A missing key has the empty text. It is safe for concurrent
// use.
type Store interface {
	// Get returns the texts of the keys, in their order.
	Get(ctx context.Context, keys []string) ([]string, error)
	// Swap makes each swap whose key still has the old text. It reports for each, in their order, whether it was made.
	// Swaps are independent of each other. After an error some of them may have been made.
	Swap(ctx context.Context, swaps []Swap) ([]bool, error)
}

// Swap replaces the text Old of a key by New.
type Swap struct {
	Key string
	// Old is the text that was read, New the one to write. An empty New deletes the key.
	Old, New string
	// Life is how long the text is kept, at least a millisecond. A swap of a text for itself only renews its life.
	Life time.Duration
}

// A part may come from outside. With escaping, different lists of parts never make the same key.
var escape = strings.NewReplacer("%", "%25", ":", "%3A")

// Key joins parts to "a:b". Colons and percent signs within a part are escaped.
func Key(parts ...string) string {
	var key strings.Builder
	for i, part := range parts {
		if i > 0 {
			key.WriteByte(':')
		}
		key.WriteString(escape.Replace(part))
	}
	return key.String()
}
