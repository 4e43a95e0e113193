package control_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/meter"
	"switchyard.dev/services/edge/internal/meter/metertest"
)

// limitsOf is what operators and customers read of a metered limit.
type limitsOf struct {
	Plan   string
	Limits []struct {
		Meter        string
		Amount, Used int64
		Price        int64  `json:"price_pico_usd"`
		Overage      *int64 `json:"overage"`
		OveragePico  string `json:"overage_pico_usd"`
	}
}

// What is beyond a metered limit is shown with its exact price: to operators of each window, to customers of the present.
func TestOverage(t *testing.T) {
	x := newWorld(t)
	_, key := x.key(t, "ai", apikey.Read)
	read := func(path, token string) (l limitsOf) {
		t.Helper()
		w := x.do(t, "GET", path, token, "")
		if err := json.Unmarshal(w.Body.Bytes(), &l); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s, %v", path, w.Code, w.Body, err)
		}
		return l
	}
	const path = "/admin/v1/organizations/org-1/limits"
	x.operate(t, "GET", path, "", http.StatusNotFound) // no plan
	// The largest price: what 3 units cost is exact.
	x.operate(t, "PUT", "/admin/v1/plans/default", `{"limits":[
		{"meter":"calls","period":"month","amount":2,"kind":"metered","price_pico_usd":999999999999999},
		{"meter":"calls","period":"month","amount":2,"kind":"soft"}]}`, http.StatusOK)
	now := time.Now().UTC()
	before := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC).Add(-time.Minute)
	for i, at := range []time.Time{now.Truncate(time.Minute), before} {
		count := meter.Count{Counter: meter.Counter{Organization: "org-1", Key: "key_1", Metric: "llm_requests", Minute: at}, Count: int64(5 - 4*i)}
		metertest.Add(t, x.usage, count)
	}
	for name, tt := range map[string]struct {
		got     limitsOf
		used    int64
		overage int64
		pico    string
	}{
		"operators": {read(path, operatorToken), 5, 3, "2999999999999997"},
		"before":    {read(path+"?at="+before.Format(time.RFC3339), operatorToken), 1, 0, "0"},
		"customers": {read("/product/v1/_meta/limits", key), 5, 3, "2999999999999997"},
	} {
		if tt.got.Plan != "default" || len(tt.got.Limits) != 2 {
			t.Fatalf("%s: %+v", name, tt.got)
		}
		metered, soft := tt.got.Limits[0], tt.got.Limits[1]
		if soft.Overage != nil || soft.Used != tt.used || soft.Price != 0 {
			t.Errorf("%s: the soft limit %+v", name, soft)
		}
		if metered.Overage == nil || metered.Price != 999999999999999 {
			t.Fatalf("%s: %+v", name, metered)
		}
		if diff := cmp.Diff([]any{tt.used, tt.overage, tt.pico}, []any{metered.Used, *metered.Overage, metered.OveragePico}); diff != "" {
			t.Errorf("%s: used, overage and price (-want +got):\n%s", name, diff)
		}
	}
	if old := read(path+"?at=2001-01-01T00:00:00Z", operatorToken); len(old.Limits) != 0 {
		t.Errorf("windows that are not kept: %+v", old)
	}
	for query, want := range map[string]int{"?at=yesterday": 400, "?from=x": 400} {
		if w := x.do(t, "GET", path+query, operatorToken, ""); w.Code != want {
			t.Errorf("%s: %d %s, want %d", query, w.Code, w.Body, want)
		}
	}
}
