package providertest

import (
	"testing"

	"switchyard.dev/services/platform/testkit/growth"
)

// runtimes is how many bytes the runtime and other goroutines may allocate beside the work.
const runtimes = 16 << 10

// Proportional fails the test if work on 4n units allocates more than eight times the memory of work on n: quadratic
// work takes sixteen times as much, linear work four times. prepare makes the input, whose memory isn't counted.
func Proportional(t *testing.T, n int, prepare func(n int) (work func())) {
	t.Helper()
	prepare(1)() // Fills pools and tables.
	small, large := growth.Allocated(prepare(n)), growth.Allocated(prepare(4*n))
	if large > 8*max(small, runtimes) {
		t.Errorf("%d units allocate %d bytes, %d units %d: more than 8 times as much", n, small, 4*n, large)
	}
}
