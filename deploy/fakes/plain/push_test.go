package plain

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestPushServiceCountsByDevice(t *testing.T) {
	server := httptest.NewServer(&PushService{})
	defer server.Close()
	do := func(method, path string, status int) (tally PushTally) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = answer.Body.Close() }()
		if answer.StatusCode != status {
			t.Errorf("%s %s: status %d", method, path, answer.StatusCode)
		}
		_ = json.NewDecoder(answer.Body).Decode(&tally) // only one has a body
		return tally
	}
	for _, path := range []string{"/push/1", "/push/2", "/push/2"} {
		do(http.MethodPost, path, http.StatusCreated)
	}
	do(http.MethodPost, "/push/x", http.StatusNotFound)
	if got := do(http.MethodGet, "/tally", http.StatusOK); got != (PushTally{Pushes: 3, Devices: 2}) {
		t.Errorf("tally %+v", got)
	}
	do(http.MethodDelete, "/tally", http.StatusOK)
	if got := do(http.MethodGet, "/tally", http.StatusOK); got != (PushTally{}) {
		t.Errorf("tally %+v", got)
	}
}
