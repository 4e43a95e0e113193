//go:build race

package growth

// distorted reports whether the race detector is on. It makes code about ten times as slow, and not evenly.
const distorted = true
