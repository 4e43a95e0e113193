package route_test

import (
	"testing"

	"switchyard.dev/services/edge/internal/route"
	"switchyard.dev/services/platform/testkit/growth"
)

func TestForCustomers(t *testing.T) {
	table, err := route.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"GET /v1/spend groups by them":                                  "GET /product/v1/ai/spend groups by them",
		"at `/v1/signing-keys`.":                                        "at `/product/v1/webhooks/signing-keys`.",
		"<code>GET /v1/spend</code>":                                    "<code>GET /product/v1/ai/spend</code>",
		"404 on /v1/push/*, and":                                        "404 on /product/v1/notifications/push/*, and",
		"DELETE /v1/endpoints/{endpoint_id}":                            "DELETE /product/v1/webhooks/endpoints/{id}",
		"(/v1/spend, /v1/signing-keys)":                                 "(/product/v1/ai/spend, /product/v1/webhooks/signing-keys)",
		"GET /v1/traces/{id} is nobody's":                               "GET /v1/traces/{id} is nobody's",
		"/product/v1/ai/spend":                                          "/product/v1/ai/spend",
		"$EDGE_URL/v1/spend /admin/v1/spend https://a.example/v1/spend": "$EDGE_URL/v1/spend /admin/v1/spend https://a.example/v1/spend",
		"PATCH /v1/spend":                                               "PATCH /v1/spend",
		"/v1/":                                                          "/v1/",
	} {
		if got := table.ForCustomers(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestForCustomersGrowsLinearly(t *testing.T) {
	table, err := route.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	inputs := append(growth.Around("GET /v1/", growth.Text, ""), growth.Repeat("one path", "", "/v1/spend ", ""))
	growth.Linear(t, growth.EachText(inputs, func(text string) { _ = table.ForCustomers(text) })...)
}
