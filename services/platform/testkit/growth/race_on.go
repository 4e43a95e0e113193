//go:build race

package growth

// distorted reports whether the race detector is on, which costs ten times as
// much, and not evenly.
const distorted = true
