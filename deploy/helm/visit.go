package main

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// visit puts a value in the place of a node, if there is one for its path.
func (v *values) visit(o *object, n *node, path string) {
	switch {
	case path == "/metadata/namespace":
		n.inline = "{{ .Release.Namespace }}"
	case strings.HasSuffix(path, "/secretName"), strings.HasSuffix(path, "/ca/secret/name"), strings.HasSuffix(path, "/caCertificateRefs/edge-mtls/name"):
		v.take(n, "secrets."+camel(n.scalar.Value))
	case strings.HasSuffix(path, "/configMapRef/name"), strings.HasSuffix(path, "/configMap/name"):
		v.take(n, "configMaps."+camel(n.scalar.Value))
	case o.kind == workload, o.kind == "Job":
		v.visitPods(o, n, path)
	case o.kind == "ServiceAccount" && path == "/metadata" && services[o.name] != "":
		v.filled(n, "annotations", services[o.name]+".serviceAccount.annotations", noFields)
	case o.kind == "Service" && o.name == "edge" && path == "/metadata":
		v.filled(n, "annotations", "edge.service.annotations", noFields)
	case (o.kind == "PodMonitor" || o.kind == "PrometheusRule") && path == "/metadata":
		v.filled(n, "labels", "prometheus.labels", noFields)
	case o.kind == "HorizontalPodAutoscaler", o.kind == "ScaledObject":
		v.visitScaler(n, services[o.name], path)
	case o.kind == "HTTPRoute":
		v.visitRoute(n, path)
	case o.kind == "Ingress":
		v.visitIngress(n, path)
	case o.kind == "PrometheusRule" && strings.HasSuffix(path, "/annotations/runbook_url"):
		handbook, section, _ := strings.Cut(n.scalar.Value, "#")
		v.set("prometheus.handbook", handbook)
		n.inline = `{{ printf "%s#` + section + `" .Values.prometheus.handbook | quote }}`
	case o.kind == "Certificate" && path == "/spec/issuerRef/name" && o.name != "switchyard-ca":
		v.take(n, "mtls.issuer.name")
	case o.kind == "Certificate" && path == "/spec/issuerRef/kind" && o.name != "switchyard-ca":
		v.take(n, "mtls.issuer.kind")
	case o.kind == "NetworkPolicy":
		v.visitPolicy(o, n, path)
	}
}

// visitPolicy has the rule for stores lead to the operator's networks and ports, too. A migration needs no Redis.
func (v *values) visitPolicy(o *object, n *node, path string) {
	switch {
	case path == "/spec/egress/*" && n.child("to").child("podSelector").child("matchLabels").child("switchyard.dev/store") != nil:
		v.set("stores.networks", noItems)
		v.set("stores.postgresPorts", []int{5432})
		v.set("stores.redisPorts", []int{6379})
		n.child("to").extra = []string{"{{- range .Values.stores.networks }}", "- ipBlock: {cidr: {{ . | quote }}}", "{{- end }}"}
		of := "concat .Values.stores.postgresPorts .Values.stores.redisPorts"
		if strings.HasSuffix(o.name, "-migrate") {
			of = ".Values.stores.postgresPorts"
		}
		*n.child("ports") = node{extra: []string{"{{- range " + of + " }}", "- port: {{ . }}", "{{- end }}"}}
	case strings.HasSuffix(path, "/namespaceSelector/matchLabels/kubernetes.io/metadata.name"):
		v.take(n, map[string]string{"traces": "otel", "metrics": "prometheus"}[o.name]+".namespace")
	}
}

// pods is the path of a pod's description in a workload and in a Job.
const pods = "/spec/template/spec"

func (v *values) visitPods(o *object, n *node, path string) {
	program := strings.TrimSuffix(o.name, "-migrate")
	service, owner := services[program], services[program]
	if owner == "control" { // a role of the edge, with its image and its settings
		owner = "edge"
	}
	inPod, _ := strings.CutPrefix(path, pods)
	switch {
	case path == "/spec" && o.kind == workload:
		v.set(service+".replicas", 2)
		n.extra = []string{"{{- if not .Values." + service + ".autoscaling.enabled }}", "replicas: {{ .Values." + service + ".replicas }}", "{{- end }}"}
	case path == "/spec/template/metadata/labels":
		v.further(n, service+".podLabels", noFields)
	case path == pods:
		v.filled(n, "imagePullSecrets", "image.pullSecrets", noItems)
		v.filled(n, "nodeSelector", owner+".nodeSelector", noFields)
		v.filled(n, "tolerations", owner+".tolerations", noItems)
	case inPod == "/terminationGracePeriodSeconds":
		v.take(n, service+".terminationGracePeriodSeconds")
	case strings.HasPrefix(inPod, "/containers/"):
		_, inContainer, _ := strings.Cut(strings.TrimPrefix(inPod, "/containers/"), "/")
		v.visitContainer(o, n, service, owner, inContainer)
	default:
		v.visitVolumes(n, service, path)
	}
}

func (v *values) visitContainer(o *object, n *node, service, owner, path string) {
	switch {
	case path == "":
		n.extra = []string{"{{- with .Values.image.pullPolicy }}", "imagePullPolicy: {{ . }}", "{{- end }}"}
	case path == "image":
		v.set(owner+".image.repository", n.scalar.Value[strings.LastIndex(n.scalar.Value, "/")+1:])
		for _, name := range []string{"registry", "tag", "digest"} {
			v.set(owner+".image."+name, "")
		}
		n.inline = `{{ include "switchyard.image" (list .Values.image .Values.` + owner + `.image) | quote }}`
	case path == "resources" && o.kind == workload:
		v.takeWhole(n, service+".resources")
	case path == "volumeMounts":
		v.further(n, service+".extraVolumeMounts", noItems)
	case path == "env":
		v.visitVariables(n, owner)
	case path == "env/OTEL_EXPORTER_OTLP_ENDPOINT/value":
		v.take(n, "otel.endpoint")
	case strings.HasSuffix(path, "_DATABASE_URL_FILE/value") && o.kind == "Job":
		key := strings.TrimPrefix(n.scalar.Value, "/secrets/")
		v.set(service+".migration.databaseUrlKey", key)
		n.inline = `{{ printf "/secrets/%s" .Values.` + service + `.migration.databaseUrlKey | quote }}`
	}
}

func (v *values) visitVolumes(n *node, service, path string) {
	switch {
	case path == pods+"/volumes":
		v.further(n, service+".extraVolumes", noItems)
	case path == pods+"/volumes/byok-secrets/secret":
		v.filled(n, "items", service+".byokSecretItems", noItems)
	case strings.HasSuffix(path, "/emptyDir/sizeLimit"):
		v.take(n, service+".spool.emptyDirLimit")
	case strings.HasSuffix(path, "/spec/resources/requests/storage"):
		v.take(n, service+".spool.size")
	case strings.HasPrefix(path, "/spec/volumeClaimTemplates/") && strings.HasSuffix(path, "/spec"):
		v.set(service+".spool.storageClass", "")
		n.extra = []string{"{{- with .Values." + service + ".spool.storageClass }}", "storageClassName: {{ . | quote }}", "{{- end }}"}
	}
}

// visitVariables has the settings of a service follow the variables that the manifests set.
func (v *values) visitVariables(n *node, owner string) {
	v.set(owner+".settings", map[string]string{})
	n.extra = []string{
		"{{- range $name, $value := .Values." + owner + ".settings }}", "- name: {{ $name }}", "  value: {{ $value | quote }}", "{{- end }}",
	}
	if v.env[owner] == nil {
		v.env[owner] = make(map[string]bool)
	}
	for _, p := range n.items {
		v.env[owner][label(p.node)] = true
	}
}

func (v *values) visitScaler(n *node, service, path string) {
	switch path {
	case "/spec/minReplicas", "/spec/minReplicaCount":
		v.set(service+".autoscaling.enabled", true)
		v.take(n, service+".autoscaling.min")
	case "/spec/maxReplicas", "/spec/maxReplicaCount":
		v.take(n, service+".autoscaling.max")
	case "/spec/metrics/Resource/resource/target/averageUtilization":
		v.take(n, service+".autoscaling.cpu")
	case "/spec/triggers/cpu/metadata/value":
		v.show(n, service+".autoscaling.cpu")
	case "/spec/metrics/External/external/target/value", "/spec/triggers/prometheus/metadata/threshold":
		v.set("backlog.flows", &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: n.scalar.Value})
		v.show(n, "backlog.flows")
	case "/spec/triggers/prometheus/metadata/serverAddress":
		v.take(n, "backlog.prometheus")
	case "/spec/triggers/prometheus/metadata/query":
		v.take(n, "backlog.query")
	}
}

func (v *values) visitIngress(n *node, path string) {
	switch path {
	case "/spec":
		v.set("ingress.className", "")
		n.extra = []string{"{{- with .Values.ingress.className }}", "ingressClassName: {{ . | quote }}", "{{- end }}"}
	case "/spec/rules/*/host", "/spec/tls/*/hosts/*":
		v.take(n, "ingress.host")
	case "/metadata/annotations":
		// Those that a switch adds stay; the others are the ingress controller's, of which operators have their own.
		kept, taken := []part(nil), &node{}
		for _, p := range n.fields {
			if p.when.always() {
				taken.fields = append(taken.fields, p)
			} else {
				kept = append(kept, p)
			}
		}
		n.fields = kept
		v.further(n, "ingress.annotations", v.plain(taken))
	}
}

func (v *values) visitRoute(n *node, path string) {
	switch path {
	case "/spec/hostnames/*":
		v.take(n, "ingress.host")
	case "/spec/parentRefs/public/name":
		v.take(n, "gatewayApi.name")
	case "/spec/parentRefs/public/namespace":
		v.take(n, "gatewayApi.namespace")
	}
}
