package api_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"switchyard.dev/services/edge/internal/api"
	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/proxy"
	"switchyard.dev/services/edge/internal/route"
	"switchyard.dev/services/platform/testkit/growth"
)

// Customers' routes come from the table, the operators' from the code that mounts
// them: a new one has to say here what body it takes.
func TestRoutesGrowsLinearly(t *testing.T) {
	x := newWorld(t)
	x.relay = func(w http.ResponseWriter, _ proxy.Call) error {
		x.calls = x.calls[:0]
		_, err := io.WriteString(w, "{}")
		return err
	}
	table, err := route.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	faces := map[string]growth.Face{}
	for _, r := range table.Routes {
		if _, ok := faces[r.Products[0]]; !ok {
			_, key := x.key(t, r.Products[0], append(apikey.Scopes(), apikey.Read, apikey.Write)...)
			faces[r.Products[0]] = growth.Face{
				Handler: x, Header: http.Header{"Authorization": {"Bearer " + key}}, Methods: map[string]string{}, Bodies: map[string]string{},
			}
		}
		faces[r.Products[0]].Methods[r.Method+" "+r.Path] = ""
		if r.HasBody() {
			faces[r.Products[0]].Bodies[r.Method+" "+r.Path] = r.Example
		}
	}
	operators := growth.Face{
		Handler: x, Header: http.Header{"Authorization": {"Bearer " + operatorToken}},
		Methods: map[string]string{"GET /product/v1/_meta/catalog": ""},
		Bodies: map[string]string{
			"POST /admin/v1/keys":                                      `{"organization_id":"o","product":"ai","permissions":["read"],"name":"n"}`,
			"PUT /admin/v1/keys/{id}":                                  `{"name":"n","tpm":1,"models":["a"],"budget":{"ceiling_cents":1,"period":"day"}}`,
			"PATCH /admin/v1/keys/{id}":                                `{"name":"n"}`,
			"POST /admin/v1/keys/{id}/rotate":                          `{"overlap_seconds":1}`,
			"PUT /admin/v1/organizations/{organization_id}/rate-limit": `{"requests":1,"window_seconds":60}`,
		},
	}
	for _, r := range api.OperatorRoutes() {
		operators.Methods[r] = ""
	}
	faces["operators"] = operators
	for name, face := range faces {
		t.Run(strings.ReplaceAll(name, "/", "_"), face.Linear)
	}
}
