package port

import (
	"errors"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
)

func TestFreePortsDifferAndCanBeBound(t *testing.T) {
	ports, err := Free(t.Context(), 12)
	if err != nil {
		t.Fatal(err)
	}
	if len(ports) != 12 {
		t.Fatalf("got %d ports, want 12", len(ports))
	}
	slices.Sort(ports)
	if len(slices.Compact(slices.Clone(ports))) != 12 {
		t.Errorf("a port comes twice: %v", ports)
	}
	for _, p := range ports {
		if p < lowest || p >= highest {
			t.Errorf("port %d is outside %d..%d", p, lowest, highest)
		}
		listen(t, At(p))
	}
}

// A stack that starts must not take the port of a member of another that is just being started again.
func TestFreePortsComeOnce(t *testing.T) {
	var mu sync.Mutex
	var all []int
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			ports, err := Free(t.Context(), 40)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, ports...)
		})
	}
	callers.Wait()
	slices.Sort(all)
	if different := len(slices.Compact(slices.Clone(all))); different != 8*40 {
		t.Errorf("%d different ports, want %d", different, 8*40)
	}
}

func TestFromSkipsATakenPort(t *testing.T) {
	ports, err := Free(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	wanted := ports[0]
	got, err := From(t.Context(), wanted)
	if err != nil || got != wanted {
		t.Fatalf("From(%d) = %d, %v while it is free", wanted, got, err)
	}
	listen(t, At(wanted))
	if Available(t.Context(), At(wanted)) {
		t.Error("a port with a listener counts as available")
	}
	if err := Check(t.Context(), At(wanted)); !errors.Is(err, ErrTaken) {
		t.Errorf("Check = %v, want %v", err, ErrTaken)
	}
	if err := Check(t.Context(), "192.0.2.1:80"); err == nil || errors.Is(err, ErrTaken) {
		t.Errorf("Check of an address that isn't this machine's = %v", err)
	}
	got, err = From(t.Context(), wanted)
	if err != nil || got <= wanted {
		t.Errorf("From(%d) = %d, %v, want a later port", wanted, got, err)
	}
}

func TestDialable(t *testing.T) {
	tests := []struct {
		listen, want string
	}{
		{":8080", "127.0.0.1:8080"},
		{"0.0.0.0:8080", "127.0.0.1:8080"},
		{"[::]:8080", "127.0.0.1:8080"},
		{"127.0.0.1:8080", "127.0.0.1:8080"},
		{"[::1]:8080", "[::1]:8080"},
		{"box.local:8080", "box.local:8080"},
		{"8080", ""},
		{"127.0.0.1:0", ""},
		{"127.0.0.1:http", ""},
		{"127.0.0.1:70000", ""},
	}
	for _, tt := range tests {
		t.Run(tt.listen, func(t *testing.T) {
			got, err := Dialable(tt.listen)
			if got != tt.want || (err == nil) != (tt.want != "") {
				t.Errorf("Dialable(%q) = %q, %v, want %q", tt.listen, got, err, tt.want)
			}
		})
	}
}

func listen(t *testing.T, address string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	if _, p, err := net.SplitHostPort(listener.Addr().String()); err != nil || p == strconv.Itoa(0) {
		t.Fatalf("listening on %s", listener.Addr())
	}
}
