//go:build k8s

package k8s_test

import (
	"strings"
	"testing"
)

// The schema refuses values that are wrong, and names them.
func TestChartRefuses(t *testing.T) {
	cases := []struct{ values, want string }{
		{"edge: {replicas: 0}", "at '/edge/replicas'"},
		{"edge: {replicas: two}", "at '/edge/replicas'"},
		{"edges: {replicas: 1}", "'edges' not allowed"},
		{"gateway: {autoscaling: {maximum: 3}}", "at '/gateway/autoscaling'"},
		{"image: {registry: ''}", "at '/image/registry'"},
		{"image: {tag: 'a b'}", "at '/image/tag'"},
		{"notify: {image: {digest: sha256:1}}", "at '/notify/image/digest'"},
		{"ingress: {host: 'https://a.example'}", "at '/ingress/host'"},
		{"stores: {networks: [10.0.0.1]}", "at '/stores/networks/0'"},
		{"stores: {postgresPorts: []}", "at '/stores/postgresPorts'"},
		{"gateway: {resources: {requests: {cpu: some}}}", "at '/gateway/resources/requests/cpu'"},
		{"gateway: {resources: {limits: {memory: null}}}", "at '/gateway/resources/limits'"},
		{"gateway: {spool: {size: -1Gi}}", "at '/gateway/spool/size'"},
		{"gateway: {settings: {GATEWAY_TRACE_KEEP: 3}}", "at '/gateway/settings/GATEWAY_TRACE_KEEP'"},
		{"gateway: {settings: {EDGE_URL: a}}", "at '/gateway/settings': additional properties 'EDGE_URL' not allowed"},
		{"gateway: {settings: {GATEWAY_SPOOL_DIR: /tmp}}", "at '/gateway/settings/GATEWAY_SPOOL_DIR'"},
		{"ingress: {annotations: {nginx.ingress.kubernetes.io/backend-protocol: HTTP}}", "at '/ingress/annotations/nginx.ingress.kubernetes.io~1backend-protocol'"},
		{"notify: {spool: {size: 1Gi}}", "at '/notify'"},
		{"edge: {spool: {size: 1Gi}}", "at '/edge'"}, // It had one once.
		{"components: {backlog: both}", "at '/components/backlog'"},
		{"components: {mtls: 'yes'}", "at '/components/mtls'"},
		{"secrets: {edge: 'A secret'}", "at '/secrets/edge'"},
		{"mtls: {issuer: {kind: CA}}", "at '/mtls/issuer/kind'"},
		{"gateway: {podLabels: {app.kubernetes.io/name: edge}}", "at '/gateway/podLabels/app.kubernetes.io~1name'"},
		{"gateway: {podLabels: {switchyard.dev/migrates: edge}}", "at '/gateway/podLabels/switchyard.dev~1migrates'"},
		{"gateway: {terminationGracePeriodSeconds: 5m}", "at '/gateway/terminationGracePeriodSeconds'"},
		{"gateway: {migration: {databaseUrlKey: ../key}}", "at '/gateway/migration/databaseUrlKey'"},
		{"gateway: {byokSecretItems: [{key: a}]}", "at '/gateway/byokSecretItems/0'"},
		{"edge: {extraVolumeMounts: [{name: own}]}", "at '/edge/extraVolumeMounts/0'"},
		{"edge: {tolerations: {key: a}}", "at '/edge/tolerations'"},
		{"backlog: {flows: 0}", "at '/backlog/flows'"},
		{"backlog: {prometheus: 'prometheus:9090'}", "at '/backlog/prometheus'"},
	}
	var values []string
	for _, c := range cases {
		values = append(values, c.values)
	}
	for i, r := range render(t, values...) {
		if !strings.Contains(r.Error, cases[i].want) {
			t.Errorf("%s: %q, want %q in it", cases[i].values, r.Error, cases[i].want)
		}
	}
}
