//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"switchyard.dev/deploy/dev/stack"
)

// What a customer says of its calls in headers, the user and tags, is in the spend of its organization and in what
// operators see of the edge's counts, both by tag and by user.
func TestTagsThroughTheEdge(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization := unique("org")
	customer := h.customer(t, organization, "ai", "read")
	for _, call := range []struct {
		user, tags string
		times      int
	}{{"ann", "team=web,feature=help%20desk", 2}, {"bob", "team=web", 1}, {"bob", "team=shop", 3}} {
		for range call.times {
			customer.with("X-User-Id", call.user, "X-Switchyard-Tags", call.tags).post(t, chatRoute, ask("sandbox", "hello")).want(t, http.StatusOK)
		}
	}
	customer.post(t, chatRoute, ask("sandbox", "hello")).want(t, http.StatusOK)
	customer.with("X-Switchyard-Tags", "no tags").post(t, chatRoute, ask("sandbox", "hello")).refused(t, http.StatusBadRequest, "invalid_request", "X-Switchyard-Tags")

	hour := time.Now().UTC().Truncate(time.Hour)
	want := map[string]float64{"ann web": 2, "bob web": 1, "bob shop": 3, " ": 1}
	query := url.Values{"from": {hour.Add(-time.Hour).Format(time.RFC3339)}, "interval": {"hour"}, "group_by": {"user,tag.team"}}
	var spend struct {
		Rows []struct {
			Groups map[string]string
			Sums   struct{ Calls float64 }
		}
	}
	customer.get(t, "/product/v1/ai/spend?"+query.Encode()).into(t, http.StatusOK, &spend)
	spent := make(map[string]float64)
	for _, row := range spend.Rows {
		spent[row.Groups["user"]+" "+row.Groups["tag.team"]] += row.Sums.Calls
	}
	if fmt.Sprint(spent) != fmt.Sprint(want) {
		t.Errorf("spend has the calls %v, want %v", spent, want)
	}

	counted := func(query string) map[string]float64 {
		var page struct {
			Usage []struct {
				Groups map[string]string
				Count  float64
			}
		}
		h.operator(stack.Edge).get(t, "/admin/v1/usage?organization_id="+organization+query).into(t, http.StatusOK, &page)
		counts := make(map[string]float64)
		for _, line := range page.Usage {
			counts[line.Groups["user"]+" "+line.Groups["tag.team"]] += line.Count
		}
		return counts
	}
	if got := counted("&group_by=user,tag.team"); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the edge counts %v, want %v", got, want)
	}
	if got, want := counted("&group_by=user&tag=team=web"), map[string]float64{"ann ": 2, "bob ": 1}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("with a tag the edge counts %v, want %v", got, want)
	}
	if got, want := counted("&tag=feature=help+desk"), map[string]float64{" ": 2}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("with another tag the edge counts %v, want %v", got, want)
	}
}
