// Package kv changes small texts that the replicas of a service share, such as the state of a circuit breaker or of a
// rate limit. A Store swaps a text only while it is still the one its writer read, so that no replica overwrites what
// another has decided. An Updater does the reading, deciding and swapping, and lets a replica go on alone while the
// store is away. redisdb implements Store in Redis, kvtest in memory.
package kv

import (
	"context"
	"strings"
	"time"
)

// Store is a compare-and-swap store of small texts by key. A key that is not there has the empty text. It is safe for
// concurrent use.
type Store interface {
	// Get returns the texts of the keys, in their order.
	Get(ctx context.Context, keys []string) ([]string, error)
	// Swap makes each swap whose key still has the old text, and reports for each, in their order, whether it did.
	// Swaps are independent of each other. After an error some of them may have been made.
	Swap(ctx context.Context, swaps []Swap) ([]bool, error)
}

// Swap replaces the text Old of a key by New.
type Swap struct {
	Key string
	// Old is the text as it was read, New the one to write. An empty New deletes the key.
	Old, New string
	// Life is how long the text is kept, a millisecond at least. A swap of a text for itself only renews its life.
	Life time.Duration
}

// A part may come from outside: escaped, no two lists of parts make one key.
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
