package api_test

import (
	"net/http"
	"testing"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/proxy"
	"switchyard.dev/services/platform/apierr"
)

// A drain ends streams of events, which have no end of their own, and no other call.
func TestDrainEndsStreamsOfEvents(t *testing.T) {
	x := newWorld(t)
	ended := map[string]chan error{}
	x.relay = func(w http.ResponseWriter, call proxy.Call) error {
		causes := make(chan error, 1)
		ended[call.Target.Path] = causes
		t.Cleanup(call.Follow(func(cause error) { causes <- cause }))
		w.WriteHeader(http.StatusOK)
		return nil
	}
	_, key := x.key(t, "notifications", apikey.Read)
	for _, path := range []string{"inbox", "inbox/stream"} {
		if w := x.do(t, http.MethodGet, "/product/v1/notifications/"+path, key, ""); w.Code != http.StatusOK {
			t.Fatalf("%s: %d", path, w.Code)
		}
	}
	x.drain()
	if cause := apierr.From(<-ended["/v1/notifications/stream"]); cause.Kind != apierr.KindUnavailable {
		t.Errorf("the stream ended with %v", cause)
	}
	select {
	case cause := <-ended["/v1/notifications"]:
		t.Errorf("the list ended with %v", cause)
	default:
	}
}
