//go:build !race

package growth

// distorted reports whether the race detector is on.
const distorted = false
