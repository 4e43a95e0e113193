package app

import (
	"net/netip"
	"strings"
	"testing"

	"switchyard.dev/services/platform/config"
	"switchyard.dev/services/platform/netguard"
)

// What NOTIFY_DENY_PREFIXES holds is refused by every guard of the service.
func TestDenyPrefixes(t *testing.T) {
	denied := config.Prefixes{netip.MustParsePrefix("203.0.114.0/24")}
	out, err := newOutbound(Config{Delivery: Delivery{DenyPrefixes: denied}})
	if err != nil {
		t.Fatal(err)
	}
	for _, guard := range []*netguard.Guard{out.guard, out.webhookGuard} {
		if _, err := guard.CheckURL("https://203.0.114.7/"); err == nil {
			t.Error("a denied address passes")
		}
		if _, err := guard.DialContext(t.Context(), "tcp", "203.0.114.7:443"); err == nil || !strings.Contains(err.Error(), netguard.RuleAddress) {
			t.Errorf("a denied address is dialled: %v", err)
		}
		if _, err := guard.CheckURL("https://203.0.115.7/"); err != nil {
			t.Errorf("an address beside it: %v", err)
		}
	}
	_, err = Load([]string{"NOTIFY_DENY_PREFIXES=203.0.114.7/24"})
	if err == nil || !strings.Contains(err.Error(), "NOTIFY_DENY_PREFIXES") || !strings.Contains(err.Error(), "203.0.114.0/24") {
		t.Errorf("a wrong network: %v, want the setting and the rule", err)
	}
}
