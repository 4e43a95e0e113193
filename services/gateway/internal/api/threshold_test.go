package api_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The thresholds of a budget are shown in order, stay when they are left out, and are refused beyond their bounds.
func TestBudgetThresholds(t *testing.T) {
	b := setup(t)
	for _, step := range []struct {
		body string
		want []any
	}{
		{`{"budget_ceiling_cents":100}`, []any{50.0, 80.0, 100.0}},
		{`{"budget_ceiling_cents":100,"thresholds":[90,10]}`, []any{10.0, 90.0}},
		{`{"budget_ceiling_cents":200}`, []any{10.0, 90.0}},
	} {
		if diff := cmp.Diff(step.want, b.put(t, budgetPath, step.body).fields(t, http.StatusOK)["thresholds"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.body, diff)
		}
	}
	for _, thresholds := range []string{"[0]", "[101]", "[50,50]", "[1,2,3,4,5,6,7,8,9,10,11]"} {
		b.put(t, budgetPath, `{"budget_ceiling_cents":1,"thresholds":`+thresholds+`}`).refused(t, 400, "invalid_request", "thresholds")
	}
}
