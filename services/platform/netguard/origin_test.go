package netguard_test

import (
	"testing"

	"switchyard.dev/services/platform/netguard"
)

func TestOrigin(t *testing.T) {
	for text, want := range map[string]string{
		"https://a.example/p?q":         "https://a.example:443",
		"HTTPS://A.Example:443":         "https://a.example:443",
		"http://a.example":              "http://a.example:80",
		"https://a.example:8443/":       "https://a.example:8443",
		"https://b\u00fccher.example/":  "https://xn--bcher-kva.example:443",
		"https://\uff41.example/":       "https://a.example:443",
		"https://\u0430.example/":       "https://xn--80a.example:443",
		"https://a.example.mine.test/":  "https://a.example.mine.test:443",
		"https://[2001:DB8:0::1]/":      "https://2001:db8::1:443",
		"https://user@a.example/":       "https://a.example:443",
		"https://a.example\\@mine.test": "",
		"https://a.example./":           "",
		"ftp://a.example/":              "",
		"a.example":                     "",
		"":                              "",
	} {
		if got := netguard.Origin(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if same := netguard.SameOrigin(text, text); same != (want != "") {
			t.Errorf("%q is its own origin: %t", text, same)
		}
	}
}
