package api_test

import (
	"encoding/json"
	"math"
	"regexp"
	"testing"
	"time"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/limit"
	"switchyard.dev/services/edge/internal/route"
)

// Each route says in its own form when to come again, and so does a problem
// document.
func TestEveryRouteSaysWhenToComeAgain(t *testing.T) {
	x := newWorld(t)
	segment := regexp.MustCompile(`\{[a-z_.]+\}`)
	table, err := route.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	keys, begun := make(map[string]string), time.Now()
	spent := func(r route.Route) string {
		kind := r.Products[0] + " " + string(r.Scope)
		if keys[kind] == "" {
			_, text, err := x.manager.Create(t.Context(), apikey.Actor{Name: "test"}, apikey.Request{
				Organization: "org-9", Product: r.Products[0], Permissions: []apikey.Permission{r.Scope},
				Limit: limit.Limit{Requests: 1, Window: time.Hour, Burst: 1},
			})
			if err != nil {
				t.Fatal(err)
			}
			keys[kind] = text.Reveal()
			_ = x.send(t, r.Method, segment.ReplaceAllString(r.Path, "rest"), "Authorization", "Bearer "+keys[kind])
		}
		return keys[kind]
	}
	for _, r := range table.Routes {
		path := segment.ReplaceAllString(r.Path, "rest")
		for _, accept := range []string{"application/json", "application/problem+json"} {
			w := x.send(t, r.Method, path, "Authorization", "Bearer "+spent(r), "Accept", accept)
			if w.Code != 429 {
				t.Errorf("%s %s: status %d, want 429", r.Method, path, w.Code)
				continue
			}
			var body struct {
				RetryAfter float64 `json:"retry_after"`
				Error      json.RawMessage
			}
			var inner struct {
				RetryAfter float64 `json:"retry_after"`
				Data       struct {
					RetryAfterMs float64 `json:"retry_after_ms"`
				} `json:"data"`
			}
			if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
				t.Errorf("%s %s: body %s: %v", r.Method, path, w.Body, err)
				continue
			}
			_ = json.Unmarshal(body.Error, &inner) // A text in some forms.
			// The bucket refills while the test runs.
			least := 3600 - math.Ceil(time.Since(begun).Seconds())
			wait := max(body.RetryAfter, inner.RetryAfter, math.Ceil(inner.Data.RetryAfterMs/1000))
			if wait < least || wait > 3600 {
				t.Errorf("%s %s (%s): retry_after %v, want %v to 3600: %s", r.Method, path, accept, wait, least, w.Body)
			}
		}
	}
}
