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
		Handler: newWorld(t), Header: http.Header{"Authorization": {"Bearer " + operatorToken}, "X-Organization-Id": {"acme"}},
		Methods: map[string]string{},
		Bodies: map[string]string{
			"POST /admin/v1/keys":                                      `{"organization_id":"o","product":"ai","permissions":["read"],"name":"n"}`,
			"PUT /admin/v1/keys/{id}":                                  `{"name":"n","tpm":1,"models":["a"],"budget":{"ceiling_cents":1,"period":"day"}}`,
			"PATCH /admin/v1/keys/{id}":                                `{"name":"n"}`,
			"POST /admin/v1/keys/{id}/rotate":                          `{"overlap_seconds":1}`,
			"PUT /admin/v1/organizations/{organization_id}/rate-limit": `{"requests":1,"window_seconds":60}`,
			"PUT /admin/v1/alerts/rules/{organization_id}":             `{"rules":[{"name":"n","types":["switchyard.*"],"where":{"percent":80},"to":[{"channel":"in_app"}]}]}`,
			"PUT /admin/v1/approvers/{organization_id}":                `{"groups":[{"name":"n","members":[{"user_id":"u"}],"steps":[{"after":"0s","channels":["in_app"]}]}]}`,
			"PUT /v1/approvers":                                        `{"groups":[{"name":"n","members":[{"user_id":"u"}]}]}`,
			"PUT /v1/alerts/rules":                                     `{"rules":[{"name":"n","types":["switchyard.*"],"to":[{"channel":"in_app"}]}]}`,
			"PUT /admin/v1/organizations/{organization_id}/plan":       `{"plan":"p"}`,
			"POST /admin/v1/organizations/{organization_id}/credits":   `{"amount_cents":1,"expires_at":"2099-01-01T00:00:00Z","note":"n","idempotency_key":"k"}`,
			"PUT /admin/v1/plans/{plan}":                               `{"description":"d","limits":[{"meter":"calls","period":"day","amount":1,"kind":"hard"}]}`,
			"POST /admin/v1/exports/{destination}/backfill":            `{"from":"2026-11-01T00:00:00Z","to":"2026-11-01T01:00:00Z","dry_run":true}`,
			"PUT /admin/v1/organizations/{organization_id}/origins":    `{"origins":["https://app.example.com"]}`,
			"POST /v1/tokens":                                          aToken,
			"POST /v1/tokens/revoke":                                   `{"user_id":"u"}`,
			"POST /admin/v1/tokens":                                    aToken,
			"POST /admin/v1/tokens/revoke":                             `{"organization_id":"o","user_id":"u"}`,
			"POST /admin/v1/tokens/keys/rotate":                        `{}`,
		},
	}
	for _, r := range control.Routes() {
		operators.Methods[r] = ""
	}
	operators.Linear(t)
	portal := growth.Face{
		Handler: newPortal(t), Header: http.Header{"Authorization": {"Bearer " + operatorToken}},
		Methods: map[string]string{},
		Bodies: map[string]string{
			"POST /admin/v1/portal/sessions": `{"organization_id":"o","scopes":["webhooks:*"],"return_url":"https://app.example"}`,
		},
	}
	for _, r := range control.PortalRoutes() {
		portal.Methods[r] = ""
	}
	portal.Linear(t)
}
