package api_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/proxy"
	"switchyard.dev/services/platform/socket"
)

// Each call carries the terms of its key, under the first key of its chain of rotations.
func TestTermsOfACall(t *testing.T) {
	x := newWorld(t)
	by := apikey.Actor{Name: "test"}
	first, value, err := x.manager.Create(t.Context(), by, apikey.Request{
		Organization: "org-1", Product: "ai", Permissions: []apikey.Permission{apikey.Read}, Terms: apikey.Terms{TokensPerMinute: 7},
	})
	if err != nil {
		t.Fatal(err)
	}
	_, rotated, err := x.manager.Rotate(t.Context(), by, first.ID, apikey.Rotation{Overlap: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	_, without := x.key(t, "ai", apikey.Read)
	want := `{"key":"` + first.ID + `","tpm":7}`
	for key, want := range map[string]string{value.Reveal(): want, rotated.Reveal(): want, without: ""} {
		x.calls, x.connections = nil, nil
		x.chat(t, key)
		x.upgrade(t, http.MethodGet, socketPath, key)
		for _, call := range []proxy.Call{x.calls[0], x.connections[0]} {
			if call.Terms != want {
				t.Errorf("%s with terms %s, want %s", call.Target, call.Terms, want)
			}
			if call.Admit != nil && call.Admit(t.Context()) != nil {
				t.Error("a request under the same terms was refused")
			}
		}
	}
}

// A request on a connection that was opened with other terms is refused, and ends the connection.
func TestTermsOfAConnection(t *testing.T) {
	x := newWorld(t)
	id, key := x.key(t, "ai", apikey.Read)
	x.upgrade(t, http.MethodGet, socketPath, key)
	call := x.connections[0]
	known, err := x.verifier.Verify(t.Context(), "Bearer "+key)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		tokens int64
		want   error
	}{{7, socket.ErrStale}, {0, nil}} {
		if _, err := x.manager.Update(t.Context(), apikey.Actor{Name: "test"}, id, apikey.Update{TokensPerMinute: &step.tokens}); err != nil {
			t.Fatal(err)
		}
		x.verifier.Forget(known.Digest) // as the watcher does
		if err := call.Admit(t.Context()); !errors.Is(err, step.want) {
			t.Errorf("with %d tokens a minute: %v, want %v", step.tokens, err, step.want)
		}
	}
}
