package netguard

import (
	"testing"

	"switchyard.dev/services/platform/testkit/growth"
)

func TestCheckURLGrowsLinearly(t *testing.T) {
	g := tableGuard(t)
	check := func(raw string) { _, _ = g.CheckURL(raw) }
	rows := growth.EachText(growth.Around("https://example.com/", growth.Text, ""), check)
	hosts := growth.EachText(growth.Around("https://", growth.Text, "/"), check)
	for i := range hosts {
		hosts[i].Name = "host " + hosts[i].Name
	}
	growth.Linear(t, append(rows, hosts...)...)
}
