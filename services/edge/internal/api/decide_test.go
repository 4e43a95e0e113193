package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"switchyard.dev/services/edge/internal/approver"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit/growth"
)

// annAlone is a group with ann as its only member.
type annAlone struct{}

func (annAlone) CheckNamed(_ context.Context, organization, ref, user string) error {
	if organization != "org-1" || ref != "apr_1" || user != "ann" {
		return approver.ErrNotApprover
	}
	return nil
}

// A key with the scope decides only in the name of members. The gateway gets exactly what was checked.
func TestKeysDecideForMembers(t *testing.T) {
	x := newWorld(t)
	_, key := x.key(t, "ai", "ai:approvals:decide")
	const path = "/product/v1/ai/approvals/apr_1/"
	for _, choice := range []string{"approve", "deny"} {
		for body, want := range map[string]string{
			`{"decided_by":"ann"}`:                         `{"decided_by":"ann"}`,
			`{"decided_by":"ann","reason":"so"}`:           `{"decided_by":"ann","reason":"so"}`,
			`{"decidedBy":"ann","organizationId":"org-1"}`: `{"organization_id":"org-1","decided_by":"ann"}`,
			`{}`:                                     `{}`,
			``:                                       `{}`,
			`{"decided_by":"bob"}`:                   "403 not_an_approver",
			`{"decidedBy":"bob"}`:                    "403 not_an_approver",
			`{"decided_by":"ann","decidedBy":"bob"}`: "400",
			`{"decided_by":"ann","DECIDED_BY":"bob"}`:                             "403 not_an_approver",
			`{"decided_by":"ann","decided_by":"bob"}`:                             "4",
			`{"decided_by":"ann","decided_via":"portal"}`:                         "400",
			`{"decided_by":"ann","organization_id":"org-2"}`:                      "403 organization_mismatch",
			`{"decided_by":["ann"]}`:                                              "400",
			`[]`:                                                                  "400",
			`{"decided_by":"ann"} {"decided_by":"bob"}`:                           "400",
			`{"decided_by":"ann","reason":"` + strings.Repeat("x", 64<<10) + `"}`: "413",
		} {
			x.calls = nil
			w := x.do(t, http.MethodPost, path+choice, key, body)
			if len(x.calls) != 1 || x.calls[0].Body == nil {
				t.Fatalf("%s %.80s: %d %s", choice, body, w.Code, w.Body)
			}
			sent, err := x.calls[0].Body(t.Context(), strings.NewReader(body))
			got := string(sent)
			if e, ok := errors.AsType[*apierr.Error](err); ok {
				got = fmt.Sprint(e.Kind.HTTPStatus(), " ", e.Reason)
			} else if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(got, want) || strings.Contains(got, "bob") {
				t.Errorf("%s %.80s: sent %.80s, want %s", choice, body, got, want)
			}
		}
	}
	x.calls = nil
	if w := x.do(t, http.MethodDelete, "/product/v1/ai/standing-approvals/std_1", key, ""); w.Code != http.StatusOK || x.calls[0].Body != nil {
		t.Errorf("%d", w.Code)
	}
}

func TestDecisionsGrowLinearly(t *testing.T) {
	x := newWorld(t)
	_, key := x.key(t, "ai", "ai:approvals:decide")
	x.do(t, http.MethodPost, "/product/v1/ai/approvals/apr_1/deny", key, "{}")
	growth.Linear(t, growth.EachText(append(growth.JSON, growth.Text...), func(text string) {
		_, _ = x.calls[0].Body(t.Context(), strings.NewReader(text))
	})...)
}
