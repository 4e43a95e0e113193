package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/proxy"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit"
)

// Whatever is wrong with a key, the answer is the same, and the key is nowhere.
func TestInvalidKeys(t *testing.T) {
	x := newWorld(t)
	id, revoked := x.key(t, "ai", apikey.Read)
	if err := x.manager.Revoke(t.Context(), apikey.Actor{Name: "test"}, id); err != nil {
		t.Fatal(err)
	}
	other := newWorld(t)
	_, unknown := other.key(t, "ai", apikey.Read)
	var first string
	for name, key := range map[string]string{
		"none": "", "malformed": "swy_live_nonsense-nonsense", "unknown": unknown, "revoked": revoked, "cut": revoked[:30], "service token": serviceToken,
	} {
		w := x.do(t, "POST", "/product/v1/ai/chat", key, "{}")
		if w.Code != 401 || w.Header().Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s: %d, %q", name, w.Code, w.Header().Get("WWW-Authenticate"))
		}
		if first == "" {
			first = w.Body.String()
		}
		if w.Body.String() != first {
			t.Errorf("%s: %s, others get %s", name, w.Body, first)
		}
		if key != "" {
			testkit.NoLeak(t, key, w.Body.String(), x.logs.String())
		}
	}
	var body map[string]any
	if err := json.Unmarshal([]byte(first), &body); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{
		"error": "invalid_key", "error_class": "auth", "retryable": false, "request_id": "req_1",
		"reason": "a valid API key is required in the Authorization header, after Bearer",
	}, body); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	if len(x.calls) != 0 {
		t.Error("a call went through")
	}
}

func TestRefusals(t *testing.T) {
	x := newWorld(t)
	_, key := x.key(t, "ai", apikey.Read)
	for name, tt := range map[string]struct {
		method, path, bearer, body string
		status                     int
		reason, allow              string
	}{
		"unknown path":        {"GET", "/product/v1/nothing", key, "", 404, "not_found", ""},
		"another verb":        {"GET", "/product/v1/ai/chat", key, "", 405, "method_not_allowed", "POST"},
		"verb on the catalog": {"POST", "/product/v1/_meta/catalog", key, "", 405, "method_not_allowed", "GET, HEAD"},
		"path in disguise":    {"POST", "/product/v1/ai/chat/", key, "", 404, "not_found", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := x.do(t, tt.method, tt.path, tt.bearer, tt.body)
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.reason) || w.Header().Get("Allow") != tt.allow {
				t.Errorf("%d %s, Allow %q; want %d %s %q", w.Code, w.Body, w.Header().Get("Allow"), tt.status, tt.reason, tt.allow)
			}
			var body apierr.Document
			if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || body.RequestID != "req_1" {
				t.Errorf("body %s: %v", w.Body, err)
			}
		})
	}
}

func TestFailuresOfACall(t *testing.T) {
	x := newWorld(t)
	_, key := x.key(t, "ai", apikey.Read)
	x.relay = func(http.ResponseWriter, proxy.Call) error { panic("bug") }
	if w := x.do(t, "POST", "/product/v1/ai/chat", key, "{}"); w.Code != 500 || strings.Contains(w.Body.String(), "bug") {
		t.Errorf("panic: %d %s", w.Code, w.Body)
	}
	for name, relay := range map[string]func(w http.ResponseWriter, _ proxy.Call) error{
		"cut": func(http.ResponseWriter, proxy.Call) error { return errors.Join(proxy.ErrCut, context.Canceled) },
		"panic in the middle": func(w http.ResponseWriter, _ proxy.Call) error {
			_, _ = io.WriteString(w, "half")
			panic("bug")
		},
	} {
		x.relay = relay
		func() {
			defer func() {
				if err, ok := recover().(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
					t.Errorf("%s: panic %v, want ErrAbortHandler", name, err)
				}
			}()
			x.do(t, "POST", "/product/v1/ai/chat", key, "{}")
			t.Errorf("%s: half an answer looks whole", name)
		}()
	}
}
