package stack

import (
	"maps"
	"net"
	"strings"
	"testing"

	"switchyard.dev/deploy/dev/port"
)

// freeAddresses returns n loopback addresses on which no process listens.
func freeAddresses(t *testing.T, n int) []string {
	t.Helper()
	ports, err := port.Free(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, p := range ports {
		all = append(all, port.At(p))
	}
	return all
}

func occupy(t *testing.T, address string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
}

// moved returns a lookup of settings that sets every listener to a free address, and some to the addresses of change.
func moved(t *testing.T, change map[string]string) func(string) string {
	t.Helper()
	all := listeners(nil, []Fake{FakeWebhook})
	at := map[string]string{}
	for i, address := range freeAddresses(t, len(all)) {
		at[all[i].setting] = address
	}
	maps.Copy(at, change)
	return func(setting string) string { return at[setting] }
}

func TestFixedTakesTheAddressesOfTheSettings(t *testing.T) {
	there := freeAddresses(t, 1)[0]
	_, number, _ := net.SplitHostPort(there)
	lookup := moved(t, map[string]string{"EDGE_LISTEN": ":" + number})
	plan, err := fixed(t.Context(), listeners(nil, []Fake{FakeWebhook}), lookup)
	if err != nil {
		t.Fatal(err)
	}
	if got := plan["edge"][faceHTTP]; got != ":"+number {
		t.Errorf("the edge listens on %s", got)
	}
	if got := plan.url("edge"); got != "http://"+there {
		t.Errorf("its URL is %s, want http://%s", got, there)
	}
	if got := plan.dial("gateway", faceGRPC); got != lookup("GATEWAY_GRPC_LISTEN") {
		t.Errorf("the gateway's gRPC is at %s", got)
	}
	if got := plan.dial("edge", faceGRPC); got != "" {
		t.Errorf("the edge has gRPC at %s", got)
	}
	if got := plan.url("nobody"); got != "" {
		t.Errorf("an unknown member has the address %s", got)
	}
}

func TestFixedRefuses(t *testing.T) {
	busy := freeAddresses(t, 2)
	occupy(t, busy[0])
	occupy(t, busy[1])
	tests := []struct {
		name   string
		change map[string]string
		want   []string
	}{
		{
			"a taken port",
			map[string]string{"EDGE_LISTEN": busy[0]},
			[]string{"port taken: " + busy[0] + " (edge)", "EDGE_LISTEN=127.0.0.1:18080"},
		},
		{
			"several",
			map[string]string{"GATEWAY_HTTP_LISTEN": busy[0], "FAKES_WEBHOOK_LISTEN": busy[1]},
			[]string{"ports taken", busy[0] + " (gateway)", busy[1] + " (fakes webhook)", "GATEWAY_HTTP_LISTEN=127.0.0.1:18101 FAKES_WEBHOOK_LISTEN=127.0.0.1:18191"},
		},
		{
			"one address for two",
			map[string]string{"GATEWAY_HTTP_LISTEN": "127.0.0.1:20001", "NOTIFY_GRPC_LISTEN": "127.0.0.1:20001"},
			[]string{"GATEWAY_HTTP_LISTEN and NOTIFY_GRPC_LISTEN are both 127.0.0.1:20001"},
		},
		{"no address", map[string]string{"EDGE_LISTEN": "8080"}, []string{"EDGE_LISTEN", "want host:port"}},
		{"no port to find it at", map[string]string{"EDGE_LISTEN": "127.0.0.1:0"}, []string{"EDGE_LISTEN", "1 to 65535"}},
		{"an address of another machine", map[string]string{"EDGE_LISTEN": "192.0.2.1:8080"}, []string{"EDGE_LISTEN=192.0.2.1:8080 can't be listened on"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := fixed(t.Context(), listeners(nil, []Fake{FakeWebhook}), moved(t, tt.change))
			if err == nil {
				t.Fatal("accepted")
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %v", err)
			}
			for _, want := range tt.want {
				// The proposed port may be a later one, when that port is taken as well.
				if before, _, ok := strings.Cut(want, "=127.0.0.1:1"); ok {
					want = before + "=127.0.0.1:1"
				}
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q lacks %q", err, want)
				}
			}
		})
	}
}

func TestFixedPutsFurtherReplicasAnywhere(t *testing.T) {
	all := listeners(map[Service]int{Gateway: 2}, []Fake{FakeWebhook})
	plan, err := fixed(t.Context(), all, moved(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	if first, second := plan.url("gateway"), plan.url("gateway-2"); second == "" || first == second {
		t.Errorf("the replicas are at %q and %q", first, second)
	}
}

func TestFreeGivesEachItsOwn(t *testing.T) {
	all := listeners(map[Service]int{Notify: 2}, AllFakes)
	plan, stores, err := free(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{port.At(stores.postgres): true, port.At(stores.redis): true}
	for _, l := range all {
		address := plan[l.member][l.face]
		if address == "" || seen[address] {
			t.Errorf("%s %s is at %q, which is taken or empty", l.member, l.face, address)
		}
		seen[address] = true
	}
}
