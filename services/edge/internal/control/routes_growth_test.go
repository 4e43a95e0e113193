package control_test

import (
	"net/http"
	"testing"

	"switchyard.dev/services/edge/internal/control"
	"switchyard.dev/services/platform/testkit/growth"
)

// The operations come from the code that mounts them: a new one has to say here what body it takes.
func TestRoutesGrowsLinearly(t *testing.T) {
	operators := growth.Face{
		Handler: newPortal(t), Header: http.Header{"Authorization": {"Bearer " + operatorToken}},
		Methods: map[string]string{},
		Bodies: map[string]string{
			"POST /admin/v1/keys":                                      `{"organization_id":"o","product":"ai","permissions":["read"],"name":"n"}`,
			"PUT /admin/v1/keys/{id}":                                  `{"name":"n","tpm":1,"models":["a"],"budget":{"ceiling_cents":1,"period":"day"}}`,
			"PATCH /admin/v1/keys/{id}":                                `{"name":"n"}`,
			"POST /admin/v1/keys/{id}/rotate":                          `{"overlap_seconds":1}`,
			"POST /admin/v1/portal/sessions":                           `{"organization_id":"o","scopes":["webhooks:*"],"return_url":"https://app.example"}`,
			"PUT /admin/v1/organizations/{organization_id}/rate-limit": `{"requests":1,"window_seconds":60}`,
		},
	}
	for _, r := range control.OperatorRoutes() {
		operators.Methods[r] = ""
	}
	operators.Linear(t)
}
