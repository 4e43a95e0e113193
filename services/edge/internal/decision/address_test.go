package decision_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"switchyard.dev/services/edge/internal/decision"
	"switchyard.dev/services/platform/testkit/growth"
)

// trusted are a network of pods and one of a content network.
var trusted = decision.Proxies{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:1::/48")}

func asked(remote string, noted ...string) *http.Request {
	return &http.Request{RemoteAddr: remote, Header: http.Header{"X-Forwarded-For": noted}}
}

func TestAddress(t *testing.T) {
	const pod = "10.1.2.3:4711"
	for _, tt := range []struct {
		name, remote string
		noted        []string
		want         string
	}{
		{"a connection", "192.0.2.1:80", nil, "192.0.2.1"},
		{"IPv4 in IPv6", "[::ffff:192.0.2.1]:80", nil, "192.0.2.1"},
		{"a network of IPv6", "[2001:db8::1:2]:80", nil, "2001:db8::/64"},
		{"a zone", "[fe80::1%eth0]:80", nil, "fe80::/64"},
		{"no address", "pipe", []string{"192.0.2.9"}, "pipe"},
		{"nothing", "", nil, ""},
		{"a caller that makes up who it is", "192.0.2.1:80", []string{"192.0.2.9"}, "192.0.2.1"},
		{"a proxy", pod, []string{"192.0.2.9"}, "192.0.2.9"},
		{"a proxy in IPv6 by IPv4", "[::ffff:10.1.2.3]:80", []string{"192.0.2.9"}, "192.0.2.9"},
		{"a proxy that notes ports", pod, []string{"[2001:db8::1]:80"}, "2001:db8::/64"},
		{"a caller through a proxy that makes up who it is", pod, []string{"203.0.113.1, 192.0.2.9"}, "192.0.2.9"},
		{"two proxies", pod, []string{"203.0.113.1,192.0.2.9 , 2001:db8:1::7"}, "192.0.2.9"},
		{"two headers", pod, []string{"203.0.113.1", "192.0.2.9", "10.9.9.9"}, "192.0.2.9"},
		{"a proxy's own request", pod, nil, "10.1.2.3"},
		{"a proxy that notes nobody", pod, []string{"unknown"}, "10.1.2.3"},
		{"nobody behind two proxies", pod, []string{"192.0.2.9, ,10.9.9.9"}, "10.9.9.9"},
		{"proxies only", pod, []string{"10.0.0.2, 10.0.0.3"}, "10.0.0.2"},
		{"too many proxies", pod, []string{"192.0.2.9" + strings.Repeat(",10.0.0.2", 7) + ",10.0.0.9"}, "10.0.0.2"},
	} {
		if got := trusted.Address(asked(tt.remote, tt.noted...)); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	if got := decision.Proxies(nil).Address(asked(pod, "192.0.2.9")); got != "10.1.2.3" {
		t.Errorf("without trusted proxies it is %q", got)
	}
}

func FuzzAddress(f *testing.F) {
	f.Add("10.0.0.1:1", "192.0.2.1, 10.0.0.2")
	f.Add("[::1]:1", "[::ffff:10.0.0.1]:7,")
	f.Fuzz(func(t *testing.T, remote, noted string) {
		if got := trusted.Address(asked(remote, noted)); got == "" && remote != "" {
			t.Error("nobody made the request")
		}
	})
}

func TestAddressGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.EachText(append(growth.Text, growth.Repeat("proxies", "", "10.0.0.2,", "192.0.2.1")), func(text string) {
		trusted.Address(asked("10.0.0.1:1", text))
	})...)
}
