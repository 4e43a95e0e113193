package api_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/proxy"
	"switchyard.dev/services/edge/internal/route"
	"switchyard.dev/services/platform/testkit/growth"
)

// A new route of the table is tested with its example.
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
	faces["anyone"] = growth.Face{Handler: x, Header: http.Header{}, Methods: map[string]string{"GET /product/v1/_meta/catalog": ""}}
	for name, face := range faces {
		t.Run(strings.ReplaceAll(name, "/", "_"), face.Linear)
	}
}
