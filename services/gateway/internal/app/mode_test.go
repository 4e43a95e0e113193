package app

import (
	"testing"

	"switchyard.dev/services/gateway/internal/money/ledger"
)

// The volume decides only where the setting leaves it open.
func TestModeByVolume(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		setting ledger.Mode
		durable bool
		want    ledger.Mode
	}{
		{autoMode, true, ledger.ModeSynced},
		{autoMode, false, ledger.ModeCommitted},
		{ledger.ModeSynced, false, ledger.ModeSynced},
		{ledger.ModeCommitted, true, ledger.ModeCommitted},
	} {
		if got := ledgerMode(c.setting, c.durable); got != c.want {
			t.Errorf("%s, durable %t: %s, want %s", c.setting, c.durable, got, c.want)
		}
	}
}
