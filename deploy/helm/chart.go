package main

import (
	"bytes"
	"cmp"
	"errors"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

const made = "# Made by `make chart` from deploy/k8s; a change there comes here.\n"

// files returns the chart's files, by path in the chart.
func files(objects []*object, v *values) (map[string][]byte, error) {
	writers := make(map[string]*writer)
	for _, o := range objects {
		name := "templates/" + fileOf(o) + ".yaml"
		if writers[name] == nil {
			writers[name] = &writer{}
			writers[name].WriteString(made)
		}
		writers[name].object(o)
	}
	all := make(map[string][]byte)
	errs := v.errs
	for name, w := range writers {
		all[name] = w.Bytes()
		errs = append(errs, w.err)
	}
	var err error
	if all["values.yaml"], err = v.yaml(); err != nil {
		errs = append(errs, err)
	}
	if all["values.schema.json"], err = v.schema(); err != nil {
		errs = append(errs, err)
	}
	return all, errors.Join(errs...)
}

// fileOf returns the template of an object: its service's, or that of the component that it belongs to.
func fileOf(o *object) string {
	name := strings.TrimSuffix(o.name, "-migrate")
	if _, is := services[name]; is && (o.when.always() || scaled(o) != "") {
		return name
	}
	return components[o.when.literals[0].component].name
}

// order is that of the values, and heads are what is said above them.
var (
	order = []string{
		"components", "image", "ingress", "gatewayApi", "stores", "edge", "control", "gateway", "webhookEgress", "notify", "backlog", "otel", "prometheus", "mtls", "secrets", "configMaps",
	}
	heads = map[string]string{
		"components":                         "Which components of deploy/k8s/components there are.",
		"components.backlog":                 "What scales webhook-egress by its backlog: adapter (an autoscaler and prometheus-adapter), keda, or none.",
		"components.spoolVolumes":            "The gateway's spools on volumes that outlive their pods. Without them an answer also waits for its commit in Postgres.",
		"components.gatewayApi":              "Instead of ingress, or beside it: an HTTPRoute with the same host and paths.",
		"components.mtls":                    "Mutual TLS between the services, by the Secrets whose names end in Mtls.",
		"components.prometheus":              "Needs the Prometheus operator.",
		"components.signingKeys":             "Needs the Secret webhookSigningKeys.",
		"image":                              "For all images. Each service may name its own registry, tag or digest below; a digest goes before a tag.",
		"ingress.annotations":                "Those of ingress-nginx: streams must not be gathered, and may be silent between two pings.",
		"gatewayApi":                         "The Gateway that takes the route; its certificate and its controller are yours.",
		"stores.networks":                    "Where Postgres and Redis are, as CIDRs, beside pods of any namespace with the label switchyard.dev/store.",
		"stores.postgresPorts":               "A pooler's, too. Migrations have these alone.",
		"edge":                               "Each service: its image, what it requests, its replicas, and settings beyond those of the manifests, as text.",
		"edge.replicas":                      "Without the autoscaler.",
		"edge.settings":                      "For control and the migration, too.",
		"edge.podLabels":                     "Besides those of the manifests. The migration has them, too, and the extra volumes.",
		"edge.migration":                     "The key of the Secret with the URL for the migration: behind a pooler, that of Postgres itself.",
		"edge.terminationGracePeriodSeconds": "More than EDGE_DRAIN_DELAY and EDGE_DRAIN_GRACE together.",
		"gateway.byokSecretItems":            "The paths of the keys of gatewayByokSecrets: {key: acme.openai.key, path: acme/openai.key}.",
		"edge.nodeSelector":                  "For control and the migration, too; so are the tolerations.",
		"gateway.spool.emptyDirLimit":        "Without the component spoolVolumes.",
		"backlog.flows":                      "Flows of which deliveries wait, at which webhook-egress gets more pods.",
		"backlog.prometheus":                 "Where KEDA asks.",
		"backlog.query":                      "In PromQL. Where one Prometheus scrapes several installations, add the label namespace.",
		"otel.namespace":                     "The collector's.",
		"prometheus.namespace":               "That of what scrapes.",
		"prometheus.handbook":                "Where deploy/README.md is read, to which the alerts link.",
		"mtls.certificates":                  "cert-manager makes the Secrets. Without it they are yours to make.",
		"mtls.issuer":                        "With create a certificate authority is made in the release's namespace; otherwise name an issuer that there is.",
		"secrets":                            "The names of the Secrets, which the chart doesn't make: `dev setup --kubernetes` prints those that are required.",
		"configMaps":                         "The names of ConfigMaps that pods take when there are any.",
	}
)

// yaml returns the values with their comments.
func (v *values) yaml() ([]byte, error) {
	root := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	for _, key := range order {
		root.Content = append(root.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, field(v.root, key))
	}
	for i := 0; i < len(v.root.Content); i += 2 {
		if !slices.Contains(order, v.root.Content[i].Value) {
			return nil, errors.New("the order of the values has no " + v.root.Content[i].Value)
		}
	}
	v.root = root
	for i := 1; i < len(root.Content); i += 2 {
		arrange(root.Content[i])
	}
	comment(root, "")
	var text bytes.Buffer
	text.WriteString(made)
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := encoder.Encode(root); err != nil {
		return nil, err
	}
	return text.Bytes(), nil
}

// arrange sorts fields: those of a service from what is changed most, all others by their names.
func arrange(n *yaml.Node) {
	type pair struct{ key, value *yaml.Node }
	var pairs []pair
	for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
		arrange(n.Content[i+1])
		pairs = append(pairs, pair{n.Content[i], n.Content[i+1]})
	}
	first := []string{"enabled", "min", "max", "image", "replicas", "autoscaling", "resources", "spool", "settings"}
	slices.SortStableFunc(pairs, func(a, b pair) int {
		rank := func(p pair) int { return (slices.Index(first, p.key.Value) + len(first) + 1) % (len(first) + 1) }
		return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a.key.Value, b.key.Value))
	})
	for i, p := range pairs {
		n.Content[2*i], n.Content[2*i+1] = p.key, p.value
	}
}

func comment(n *yaml.Node, path string) {
	for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
		at := strings.TrimPrefix(path+"."+n.Content[i].Value, ".")
		if head := heads[at]; head != "" {
			n.Content[i].HeadComment = "# " + head
		}
		comment(n.Content[i+1], at)
	}
}
