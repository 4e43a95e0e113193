package providertest

import (
	"testing"

	"switchyard.dev/services/platform/testkit/growth"
)

// Proportional fails the test if work on 4n units allocates more than eight times the memory of work on n: quadratic
// work takes sixteen times as much, linear work four times. prepare makes the input, whose memory isn't counted.
func Proportional(t *testing.T, n int, prepare func(n int) (work func())) {
	t.Helper()
	prepare(1)() // Fills pools and tables.
	small, large := growth.Allocated(prepare(n)), growth.Allocated(prepare(4*n))
	if large > 8*small {
		t.Errorf("%d units allocate %d bytes, %d units %d: more than 8 times as much", n, small, 4*n, large)
	}
}
