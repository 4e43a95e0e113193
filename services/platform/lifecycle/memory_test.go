package lifecycle

import (
	"bytes"
	"errors"
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

func TestLimitMemory(t *testing.T) {
	const container = 512 << 20
	within := float64(container) * heapShare
	const own = 300 << 20
	tests := []struct {
		name      string
		container memlimit.Provider
		variable  string
		want      int64
		warns     bool
	}{
		{name: "a container with a limit", container: memlimit.Limit(container), want: int64(within)},
		{name: "no limit", container: func() (uint64, error) { return 0, memlimit.ErrNoLimit }, want: math.MaxInt64},
		{name: "a limit that can't be read", container: func() (uint64, error) { return 0, errors.New("no such file") }, want: own, warns: true},
		{name: "GOMEMLIMIT", container: memlimit.Limit(container), variable: "300MiB", want: own},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("GOMEMLIMIT", test.variable) // It is restored after the test.
			if test.variable == "" {
				os.Unsetenv("GOMEMLIMIT")
			}
			before := debug.SetMemoryLimit(own)
			t.Cleanup(func() { debug.SetMemoryLimit(before) })
			var logged bytes.Buffer
			limitMemory(t.Context(), slog.New(slog.NewTextHandler(&logged, nil)), test.container)
			if got := debug.SetMemoryLimit(-1); got != test.want {
				t.Errorf("the limit is %d, want %d", got, test.want)
			}
			if warned := logged.Len() > 0; warned != test.warns {
				t.Errorf("logged %q", &logged)
			}
		})
	}
}
