//go:build k8s

package k8s_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// at returns what is at a path of keys and indexes, or nil.
func at(v any, path string) any {
	for key := range strings.SplitSeq(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			v = in[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(in) {
				return nil
			}
			v = in[i]
		default:
			return nil
		}
	}
	return v
}

// changes returns what is different in b, as a path and the value there. What is gone has the value <nil>.
func changes(a, b any, path string) (all []string) {
	at := func(key string) string { return strings.TrimPrefix(path+"."+key, ".") }
	switch before := a.(type) {
	case map[string]any:
		if after, ok := b.(map[string]any); ok {
			keys := slices.Collect(maps.Keys(before))
			for key := range after {
				if _, in := before[key]; !in {
					keys = append(keys, key)
				}
			}
			for _, key := range slices.Sorted(slices.Values(keys)) {
				all = append(all, changes(before[key], after[key], at(key))...)
			}
			return all
		}
	case []any:
		if after, ok := b.([]any); ok && len(after) >= len(before) {
			for i := range after {
				var old any
				if i < len(before) {
					old = before[i]
				}
				all = append(all, changes(old, after[i], at(strconv.Itoa(i)))...)
			}
			return all
		}
	}
	if fmt.Sprint(a) != fmt.Sprint(b) {
		all = append(all, fmt.Sprintf("%s = %v", path, b))
	}
	return all
}

// pods are the first characters of the paths of pods and of their first containers.
const (
	podOf       = ".spec.template.spec."
	containerOf = podOf + "containers.0."
)

// Each value changes what it is for, and nothing else.
func TestChartValues(t *testing.T) {
	const digest = "sha256:2b5c7f2f8a9d0e4c6b1a3f5d7e9c1b3a5f7d9e1c3b5a7f9d1e3c5b7a9f1d3e5c"
	cases := []struct {
		values string
		want   []string
	}{
		{"image: {registry: r.acme.example/s}", []string{
			"Deployment/control" + containerOf + "image = r.acme.example/s/edge:v0.1.0",
			"Deployment/edge" + containerOf + "image = r.acme.example/s/edge:v0.1.0",
			"Deployment/notify" + containerOf + "image = r.acme.example/s/notify:v0.1.0",
			"Deployment/webhook-egress" + containerOf + "image = r.acme.example/s/webhook-egress:v0.1.0",
			"Job/edge-migrate" + containerOf + "image = r.acme.example/s/edge:v0.1.0",
			"Job/gateway-migrate" + containerOf + "image = r.acme.example/s/gateway:v0.1.0",
			"Job/notify-migrate" + containerOf + "image = r.acme.example/s/notify:v0.1.0",
			"Job/webhook-egress-migrate" + containerOf + "image = r.acme.example/s/webhook-egress:v0.1.0",
			"StatefulSet/gateway" + containerOf + "image = r.acme.example/s/gateway:v0.1.0",
		}},
		{"gateway: {image: {digest: '" + digest + "', tag: v9}}", []string{
			"Job/gateway-migrate" + containerOf + "image = registry.example.com/switchyard/gateway@" + digest,
			"StatefulSet/gateway" + containerOf + "image = registry.example.com/switchyard/gateway@" + digest,
		}},
		{"edge: {image: {tag: v2, registry: r.example, repository: own}}", []string{
			"Deployment/control" + containerOf + "image = r.example/own:v2", "Deployment/edge" + containerOf + "image = r.example/own:v2",
			"Job/edge-migrate" + containerOf + "image = r.example/own:v2",
		}},
		{"ingress: {host: ai.acme.example, className: nginx, annotations: {a.b/c: d}}\nsecrets: {edgeTls: wild}", []string{
			"Ingress/edge.metadata.annotations.a.b/c = d", "Ingress/edge.spec.ingressClassName = nginx",
			"Ingress/edge.spec.rules.0.host = ai.acme.example", "Ingress/edge.spec.tls.0.hosts.0 = ai.acme.example",
			"Ingress/edge.spec.tls.0.secretName = wild",
		}},
		{"notify: {resources: {requests: {cpu: 2, memory: 1Gi}, limits: {cpu: 4}}}", []string{
			"Deployment/notify" + containerOf + "resources.limits.cpu = 4",
			"Deployment/notify" + containerOf + "resources.requests.cpu = 2", "Deployment/notify" + containerOf + "resources.requests.memory = 1Gi",
		}},
		{"gateway: {autoscaling: {min: 3, max: 40, cpu: 50}}", []string{
			"HorizontalPodAutoscaler/gateway.spec.maxReplicas = 40",
			"HorizontalPodAutoscaler/gateway.spec.metrics.0.resource.target.averageUtilization = 50",
			"HorizontalPodAutoscaler/gateway.spec.minReplicas = 3",
		}},
		{"edge: {autoscaling: {enabled: false}, replicas: 5}", []string{"Deployment/edge.spec.replicas = 5", "HorizontalPodAutoscaler/edge = <nil>"}},
		{"gateway: {spool: {size: 20Gi, storageClass: fast}}", []string{
			"StatefulSet/gateway.spec.volumeClaimTemplates.0.spec.resources.requests.storage = 20Gi",
			"StatefulSet/gateway.spec.volumeClaimTemplates.0.spec.storageClassName = fast",
		}},
		{"secrets: {gatewayFleetKeys: mine}\nconfigMaps: {gatewayConfig: files, notifySettings: more}", []string{
			"Deployment/notify" + containerOf + "envFrom.0.configMapRef.name = more", "Job/notify-migrate" + containerOf + "envFrom.0.configMapRef.name = more",
			"StatefulSet/gateway" + podOf + "volumes.2.secret.secretName = mine", "StatefulSet/gateway" + podOf + "volumes.7.configMap.name = files",
		}},
		{"edge: {settings: {EDGE_PUBLIC_URL: 'https://a.example', EDGE_LOG: \"1e6: {{ 'x' }}\"}}", settingsOf(map[string]int{
			"Deployment/control": 15, "Deployment/edge": 14, "Job/edge-migrate": 1,
		})},
		{"gateway: {serviceAccount: {annotations: {eks.amazonaws.com/role-arn: 'arn:aws:iam::1:role/g'}}, podLabels: {azure.workload.identity/use: 'true'}}", []string{
			"Job/gateway-migrate.spec.template.metadata.labels.azure.workload.identity/use = true",
			"ServiceAccount/gateway.metadata.annotations = map[eks.amazonaws.com/role-arn:arn:aws:iam::1:role/g]",
			"StatefulSet/gateway.spec.template.metadata.labels.azure.workload.identity/use = true",
		}},
		{"gateway: {extraVolumes: [{name: own, emptyDir: {}}], extraVolumeMounts: [{name: own, mountPath: /own}], byokSecretItems: [{key: acme.key, path: acme/key}]}", []string{
			"Job/gateway-migrate" + containerOf + "volumeMounts.1 = map[mountPath:/own name:own]",
			"Job/gateway-migrate" + podOf + "volumes.1 = map[emptyDir:map[] name:own]",
			"StatefulSet/gateway" + containerOf + "volumeMounts.9 = map[mountPath:/own name:own]",
			"StatefulSet/gateway" + podOf + "volumes.4.secret.items = [map[key:acme.key path:acme/key]]",
			"StatefulSet/gateway" + podOf + "volumes.8 = map[emptyDir:map[] name:own]",
		}},
		{"edge: {nodeSelector: {pool: front}, tolerations: [{key: front, operator: Exists}]}", []string{
			"Deployment/control" + podOf + "nodeSelector = map[pool:front]", "Deployment/control" + podOf + "tolerations = [map[key:front operator:Exists]]",
			"Deployment/edge" + podOf + "nodeSelector = map[pool:front]", "Deployment/edge" + podOf + "tolerations = [map[key:front operator:Exists]]",
			"Job/edge-migrate" + podOf + "nodeSelector = map[pool:front]", "Job/edge-migrate" + podOf + "tolerations = [map[key:front operator:Exists]]",
		}},
		{"webhookEgress: {terminationGracePeriodSeconds: 340, migration: {databaseUrlKey: direct}}", []string{
			"Deployment/webhook-egress" + podOf + "terminationGracePeriodSeconds = 340",
			"Job/webhook-egress-migrate" + containerOf + "env.0.value = /secrets/direct",
		}},
		{"edge: {service: {annotations: {a.b/c: d}}}\nprometheus: {labels: {release: stack}}", []string{
			"PodMonitor/switchyard.metadata.labels = map[release:stack]", "PodMonitor/switchyard-edge.metadata.labels = map[release:stack]",
			"PrometheusRule/switchyard.metadata.labels = map[release:stack]", "Service/edge.metadata.annotations = map[a.b/c:d]",
		}},
		{"backlog: {flows: 7}", []string{"HorizontalPodAutoscaler/webhook-egress.spec.metrics.1.external.target.value = 7"}},
		{"components: {backlog: none}", []string{"HorizontalPodAutoscaler/webhook-egress.spec.metrics = [map[resource:map[name:cpu target:map[averageUtilization:70 type:Utilization]] type:Resource]]"}},
		{"otel: {namespace: watch}\nprometheus: {namespace: scrape}", []string{
			"NetworkPolicy/metrics.spec.ingress.0.from.0.namespaceSelector.matchLabels.kubernetes.io/metadata.name = scrape",
			"NetworkPolicy/traces.spec.egress.0.to.0.namespaceSelector.matchLabels.kubernetes.io/metadata.name = watch",
		}},
		{"mtls: {issuer: {create: false, name: acme, kind: ClusterIssuer}}", []string{
			"Certificate/control.spec.issuerRef.kind = ClusterIssuer", "Certificate/control.spec.issuerRef.name = acme",
			"Certificate/edge.spec.issuerRef.kind = ClusterIssuer", "Certificate/edge.spec.issuerRef.name = acme",
			"Certificate/gateway.spec.issuerRef.kind = ClusterIssuer", "Certificate/gateway.spec.issuerRef.name = acme",
			"Certificate/notify.spec.issuerRef.kind = ClusterIssuer", "Certificate/notify.spec.issuerRef.name = acme",
			"Certificate/switchyard-ca = <nil>",
			"Certificate/webhook-egress.spec.issuerRef.kind = ClusterIssuer", "Certificate/webhook-egress.spec.issuerRef.name = acme",
			"Issuer/switchyard = <nil>", "Issuer/switchyard-root = <nil>",
		}},
	}
	var values []string
	for _, c := range cases {
		values = append(values, c.values)
	}
	_, text := build(t, chartProduction)
	before := byName(t, text)
	var valid strings.Builder
	for i, r := range render(t, values...) {
		got := changes(before, byName(t, []byte(r.must(t))), "")
		if want := cases[i].want; !slices.Equal(got, want) {
			t.Errorf("%s changes\n  %s\nwant\n  %s", cases[i].values, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
		}
		valid.WriteString(r.Objects + "\n---\n")
	}
	validate(t, "the chart with values", []byte(valid.String()))
}

// settingsOf returns the changes by two settings, for each object with the variables that are before them.
func settingsOf(objects map[string]int) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		env := name + containerOf + "env."
		all = append(all,
			fmt.Sprintf("%s%d = map[name:EDGE_LOG value:1e6: {{ 'x' }}]", env, objects[name]),
			fmt.Sprintf("%s%d = map[name:EDGE_PUBLIC_URL value:https://a.example]", env, objects[name]+1))
	}
	return all
}

// No value is without effect: a change of each is seen in the objects, with the switch that it depends on.
func TestChartUsesEveryValue(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var defaults map[string]any
	if err := yaml.Unmarshal(text, &defaults); err != nil {
		t.Fatal(err)
	}
	others := map[string]any{
		"backlog": "none", "kind": "ClusterIssuer", "digest": "sha256:" + strings.Repeat("a", 64), "pullPolicy": "Always", "pullSecrets": []any{map[string]any{"name": "pull"}},
		"endpoint": "http://other:4317", "handbook": "https://other.example", "memory": "3Gi", "cpu": 99, "size": "3Gi", "emptyDirLimit": "3Gi",
		"tolerations": []any{map[string]any{"operator": "Exists"}}, "byokSecretItems": []any{map[string]any{"key": "k", "path": "p"}},
		"networks": []any{"10.0.0.0/8"}, "postgresPorts": []any{6432}, "redisPorts": []any{6380},
		"extraVolumes":      []any{map[string]any{"name": "own", "emptyDir": map[string]any{}}},
		"extraVolumeMounts": []any{map[string]any{"name": "own", "mountPath": "/own"}},
	}
	var values []string
	names := leaves(defaults, "")
	for _, name := range names {
		keys := strings.Split(name, ".")
		value := any("other")
		switch old := at(defaults, name).(type) {
		case bool:
			value = !old
		case int:
			value = old + 1
		}
		if name == "backlog.prometheus" {
			value = "http://other:9090"
		}
		if other, ok := others[keys[len(keys)-1]]; ok {
			value = other
		}
		for _, base := range []string{"", switchFor(name)} {
			values = append(values, base+"\n"+nested(t, keys, value, base))
		}
	}
	bases := make(map[string]map[string]any)
	for i, r := range render(t, values...) {
		if i%2 == 0 { // without the switch it only has to be accepted
			r.must(t)
			continue
		}
		name := names[i/2]
		base := switchFor(name)
		if bases[base] == nil {
			bases[base] = byName(t, []byte(render(t, base)[0].must(t)))
		}
		if len(changes(bases[base], byName(t, []byte(r.must(t))), "")) == 0 {
			t.Errorf("%s changes nothing", name)
		}
	}
	if len(names) < 90 {
		t.Errorf("%d values are checked", len(names))
	}
}

// switchFor returns the values with which a value has an effect, as YAML.
func switchFor(name string) string {
	switch {
	case strings.HasSuffix(name, ".emptyDirLimit"):
		return "components: {spoolVolumes: false}"
	case strings.HasPrefix(name, "gatewayApi."):
		return "components: {gatewayApi: true}"
	case name == "secrets.webhookSigningKeys":
		return "components: {signingKeys: true}"
	case name == "backlog.prometheus" || name == "backlog.query":
		return "components: {backlog: keda}"
	default:
		return ""
	}
}

// nested returns a value below its keys as YAML. A replica count comes with the autoscaler off.
func nested(t *testing.T, keys []string, value any, base string) string {
	t.Helper()
	if base != "" && keys[0] == "components" {
		t.Fatalf("%v is a switch itself", keys)
	}
	top := map[string]any{keys[len(keys)-1]: value}
	if keys[len(keys)-1] == "replicas" {
		top["autoscaling"] = map[string]any{"enabled": false}
	}
	for _, key := range slices.Backward(keys[:len(keys)-1]) {
		top = map[string]any{key: top}
	}
	text, err := yaml.Marshal(top)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// leaves returns the names of all values but those whose keys are the operator's: annotations and settings.
func leaves(v any, name string) (all []string) {
	in, ok := v.(map[string]any)
	if !ok {
		return []string{name}
	}
	for _, key := range slices.Sorted(maps.Keys(in)) {
		if key != "annotations" && key != "settings" {
			all = append(all, leaves(in[key], strings.TrimPrefix(name+"."+key, "."))...)
		}
	}
	return all
}

// The values that the documents show are accepted, and change something.
func TestChartTakesTheDocumentsValues(t *testing.T) {
	var values []string
	for path, head := range map[string]string{filepath.Join(chart, "README.md"): "`my-values.yaml`:\n", "SIZING.md": "Larger requests are simpler:\n"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, found := strings.Cut(string(text), head+"\n")
		block, _, ended := strings.Cut(rest, "\n\n")
		if !found || !ended {
			t.Fatalf("%s shows no values behind %q", path, head)
		}
		values = append(values, block)
	}
	_, text := build(t, chartProduction)
	for i, r := range render(t, values...) {
		if len(changes(byName(t, text), byName(t, []byte(r.must(t))), "")) < 4 {
			t.Errorf("hardly anything changes by\n%s", values[i])
		}
	}
}
