package app

import (
	"testing"

	"switchyard.dev/services/edge/internal/meter"
)

// The volume decides only where the setting leaves it open.
func TestModeByVolume(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		setting meter.Mode
		durable bool
		want    meter.Mode
	}{
		{autoMode, true, meter.ModeSynced},
		{autoMode, false, meter.ModeCommitted},
		{meter.ModeSynced, false, meter.ModeSynced},
		{meter.ModeCommitted, true, meter.ModeCommitted},
	} {
		if got := usageMode(c.setting, c.durable); got != c.want {
			t.Errorf("%s, durable %t: %s, want %s", c.setting, c.durable, got, c.want)
		}
	}
}
