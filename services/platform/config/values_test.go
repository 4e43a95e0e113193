package config_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"switchyard.dev/services/platform/config"
)

func TestTargets(t *testing.T) {
	tests := map[string]struct {
		text string
		want config.Targets
		err  string
	}{
		"one":          {"localhost:8080", config.Targets{"localhost:8080"}, ""},
		"spaces, case": {" A.Example.com:443 , 10.0.0.1:1 ", config.Targets{"a.example.com:443", "10.0.0.1:1"}, ""},
		"IPv6":         {"[FE80::1]:443", config.Targets{"[fe80::1]:443"}, ""},
		"none":         {" ", nil, ""},
		"no port":      {"a", nil, `"a": want host:port`},
		"no host":      {":80", nil, `":80": want a host name or an IP address before the port`},
		"a URL":        {"http://a:80", nil, `"http://a:80": want host:port`},
		"a path":       {"a/b:80", nil, `"a/b:80": want a host name or an IP address before the port`},
		"port zero":    {"a:0", nil, `"a:0": want a port from 1 to 65535`},
		"port high":    {"a:65536", nil, `"a:65536": want a port from 1 to 65535`},
		"trailing":     {"a:1,", nil, `"": want host:port`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got config.Targets
			err := got.UnmarshalText([]byte(tt.text))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("targets (-want +got):\n%s", diff)
			}
			var text string
			if err != nil {
				text = err.Error()
			}
			if text != tt.err {
				t.Errorf("error %q, want %q", text, tt.err)
			}
		})
	}
}

func TestPrefixes(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want config.Prefixes
		err  string
	}{
		"none":        {" ", nil, ""},
		"two":         {" 203.0.113.0/24 , 2001:DB8:64::/96 ", config.Prefixes{netip.MustParsePrefix("203.0.113.0/24"), netip.MustParsePrefix("2001:db8:64::/96")}, ""},
		"one address": {"203.0.113.7/32", config.Prefixes{netip.MustParsePrefix("203.0.113.7/32")}, ""},
		"no length":   {"203.0.113.0", nil, `"203.0.113.0": want an IPv4 or IPv6 network`},
		"a name":      {"example.com/24", nil, `"example.com/24": want`},
		"mapped":      {"::ffff:10.0.0.0/104", nil, "want an IPv4 or IPv6 network"},
		"host bits":   {"10.1.2.3/8", nil, "want 10.0.0.0/8"},
		"an end":      {"10.0.0.0/8,", nil, `"": want`},
	} {
		t.Run(name, func(t *testing.T) {
			var got config.Prefixes
			err := got.UnmarshalText([]byte(tt.text))
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			text, err := got.MarshalText()
			if err != nil {
				t.Fatal(err)
			}
			var again config.Prefixes
			if err := again.UnmarshalText(text); err != nil || !slices.Equal(again, got) {
				t.Errorf("%s reads as %v (%v), want %v", text, again, err, got)
			}
		})
	}
}

func FuzzTargets(f *testing.F) {
	for _, seed := range []string{"a:1", "[::1]:65535,b_c.d:2", "a:1,,b", "a:01", "http://a:80", "[a]:1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var once config.Targets
		if once.UnmarshalText([]byte(text)) == nil {
			again(t, &once, &config.Targets{})
		}
	})
}

func FuzzDurations(f *testing.F) {
	for _, seed := range []string{"5s,30s,2m", "1h2m3.5s", "-1s", "0", "1s,", "9223372036854775807ns"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var once config.Durations
		if once.UnmarshalText([]byte(text)) == nil {
			again(t, &once, &config.Durations{})
		}
	})
}

// again checks that MarshalText returns a text that UnmarshalText parses to the same list.
func again(t *testing.T, once interface{ MarshalText() ([]byte, error) }, twice interface{ UnmarshalText([]byte) error }) {
	t.Helper()
	written, err := once.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	if err := twice.UnmarshalText(written); err != nil {
		t.Fatalf("%q is not taken back: %v", written, err)
	}
	if diff := cmp.Diff(once, twice, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-once +twice):\n%s", diff)
	}
}
