package config_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/platform/config"
)

func TestCheckListeners(t *testing.T) {
	for name, tt := range map[string]struct {
		http, grpc string
		want       []string // the problems in order; nil for none
	}{
		"all addresses":              {":8101", ":9101", nil},
		"loopback":                   {"127.0.0.1:8101", "[::1]:8101", nil},
		"names":                      {"localhost:8101", "gateway.example:8101", nil},
		"an interface":               {"[fe80::1%lo]:80", "", nil},
		"free ports":                 {"127.0.0.1:0", "127.0.0.1:0", nil},
		"one is off":                 {":8101", "", nil},
		"both families apart":        {"0.0.0.0:80", "[::1]:80", nil},
		"no port":                    {"foo", "127.0.0.1:", []string{`S_HTTP_LISTEN: "foo": want host:port`, `S_GRPC_LISTEN: "127.0.0.1:": want host:port`}},
		"a port that is none":        {"127.0.0.1:99999", ":-1", []string{`S_HTTP_LISTEN: "127.0.0.1:99999": want a port from 0 to 65535`, `S_GRPC_LISTEN: ":-1": want a port`}},
		"a service's name":           {":http", "", []string{`S_HTTP_LISTEN: ":http": want a port`}},
		"a host that is none":        {"a b:80", "1.2.3:80", []string{`S_HTTP_LISTEN: "a b:80": want a host name`, `S_GRPC_LISTEN: "1.2.3:80": want a host name`}},
		"a URL":                      {"http://localhost:80", "", []string{`S_HTTP_LISTEN: "http://localhost:80": want host:port`}},
		"the same":                   {":80", ":80", []string{"S_GRPC_LISTEN: must differ from S_HTTP_LISTEN, which listens on port 80 too"}},
		"the same name":              {"A.example:80", "a.example:80", []string{"S_GRPC_LISTEN: must differ from S_HTTP_LISTEN"}},
		"the same by another name":   {"localhost:80", "127.0.0.1:80", []string{"S_GRPC_LISTEN: must differ from S_HTTP_LISTEN"}},
		"one address of all":         {"127.0.0.1:80", ":80", []string{"S_GRPC_LISTEN: must differ from S_HTTP_LISTEN"}},
		"one IPv4 address of all":    {"0.0.0.0:80", "127.0.0.1:80", []string{"S_GRPC_LISTEN: must differ from S_HTTP_LISTEN"}},
		"one IPv6 address of all":    {"[::1]:80", "[::]:80", []string{"S_GRPC_LISTEN: must differ from S_HTTP_LISTEN"}},
		"all of one family and both": {"0.0.0.0:80", "[::]:80", []string{"S_GRPC_LISTEN: must differ from S_HTTP_LISTEN"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := config.CheckListeners(config.Listener{Setting: "S_HTTP_LISTEN", Address: tt.http}, config.Listener{Setting: "S_GRPC_LISTEN", Address: tt.grpc})
			wantLines(t, err, tt.want)
		})
	}
}

func TestCheckDrain(t *testing.T) {
	for _, tt := range []struct {
		delay, grace time.Duration
		want         []string
	}{
		{0, 0, nil},
		{time.Second, time.Minute, nil},
		{-1, 0, []string{"S_DRAIN_DELAY: must not be negative"}},
		{-1, -1, []string{"S_DRAIN_DELAY: must not be negative", "S_DRAIN_GRACE: must not be negative"}},
	} {
		t.Run(fmt.Sprint(tt.delay, tt.grace), func(t *testing.T) { wantLines(t, config.CheckDrain("S", tt.delay, tt.grace), tt.want) })
	}
}

// wantLines checks that the lines of an error begin with the texts.
func wantLines(t *testing.T, err error, want []string) {
	t.Helper()
	var got []string
	if err != nil {
		got = strings.Split(err.Error(), "\n")
	}
	if len(got) != len(want) {
		t.Fatalf("problems %q, want %q", got, want)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("problem %q, want %q", got[i], want[i])
		}
	}
}
