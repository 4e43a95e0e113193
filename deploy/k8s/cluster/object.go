package cluster

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// id names an object. Objects of clusters as a whole have no namespace.
type id struct{ Kind, Namespace, Name string }

// object is an object as it was applied.
type object struct {
	id

	Labels      map[string]string
	Annotations map[string]string
	uid         int // another one once the object was deleted and made again
	replicas    int // what `kubectl scale` set; 0 where the manifest or an autoscaler decides
	version     string
	node        *yaml.Node
}

// kinds lists the kinds that the cluster has, with the resource's name as kubectl prints it. Those of cert-manager are
// there, as its operator is; others need an operator that the cluster has not.
var kinds = map[string]string{
	"v1/Namespace": "namespace", "v1/Secret": "secret", "v1/ConfigMap": "configmap", "v1/Service": "service", "v1/ServiceAccount": "serviceaccount",
	"apps/v1/Deployment": "deployment.apps", "apps/v1/StatefulSet": "statefulset.apps", "batch/v1/Job": "job.batch",
	"autoscaling/v2/HorizontalPodAutoscaler": "horizontalpodautoscaler.autoscaling", "policy/v1/PodDisruptionBudget": "poddisruptionbudget.policy",
	"networking.k8s.io/v1/NetworkPolicy": "networkpolicy.networking.k8s.io", "networking.k8s.io/v1/Ingress": "ingress.networking.k8s.io",
	"cert-manager.io/v1/Issuer": "issuer.cert-manager.io", "cert-manager.io/v1/Certificate": "certificate.cert-manager.io",
}

// withoutSchema begins the versions of objects for which kubectl-validate has no schema.
const withoutSchema = "cert-manager.io/"

// resource returns the object's name as kubectl prints it.
func (o *object) resource() string { return kinds[o.version+"/"+o.Kind] + "/" + o.Name }

// parse reads the objects of a text. Those of namespaces that name none are of the given one.
func parse(text []byte, namespace string) (all []*object, err error) {
	for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var node yaml.Node
		switch err := decoder.Decode(&node); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("error parsing YAML: %w", err)
		}
		var head struct {
			APIVersion string `yaml:"apiVersion"`
			Kind       string
			Metadata   struct {
				Name, Namespace     string
				Labels, Annotations map[string]string
			}
		}
		if err := node.Decode(&head); err != nil {
			return nil, fmt.Errorf("error parsing YAML: %w", err)
		}
		if head.Kind == "" { // an empty document
			continue
		}
		o := &object{
			id: id{head.Kind, cmp.Or(head.Metadata.Namespace, namespace), head.Metadata.Name}, version: head.APIVersion,
			Labels: head.Metadata.Labels, Annotations: head.Metadata.Annotations, node: &node,
		}
		if o.Kind == "Namespace" {
			o.Namespace = ""
		}
		all = append(all, o)
	}
}

// read decodes fields of the object; those that were applied have been validated.
func (o *object) read(into any) { _ = o.node.Decode(into) }

// part returns a field of the spec as text, so that two can be compared: "" where there is none.
func (o *object) part(field string) string {
	var whole struct{ Spec map[string]any }
	o.read(&whole)
	if whole.Spec[field] == nil {
		return ""
	}
	text, _ := yaml.Marshal(whole.Spec[field]) // maps are written in the order of their keys
	return string(text)
}

// text returns the whole object in one form.
func (o *object) text() string {
	var whole map[string]any
	o.read(&whole)
	text, _ := yaml.Marshal(whole)
	return string(text)
}

// digest names a version of a pod's template.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])[:10]
}

// frozen returns the first field that may not be changed from one version of an object to the next, and kubectl's words.
func frozen(before, after *object) string {
	fixed := map[string][]string{
		"Job": {"template", "selector", "completionMode", "backoffLimitPerIndex"}, "Deployment": {"selector"},
		"StatefulSet": {"selector", "serviceName", "podManagementPolicy", "volumeClaimTemplates", "revisionHistoryLimit"},
	}
	for _, field := range fixed[after.Kind] {
		if before.part(field) == after.part(field) {
			continue
		}
		if after.Kind == "StatefulSet" {
			return "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', " +
				"'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
		}
		return "spec." + field + ": Invalid value: field is immutable"
	}
	return ""
}

// ofKind returns the objects of a kind in the order of their names.
func (c *Cluster) ofKind(kind string) (all []*object) {
	for key, o := range c.objects {
		if key.Kind == kind {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(a, b *object) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return all
}

// data returns the content of a Secret or a ConfigMap; false when there is none of the name.
func (c *Cluster) data(kind, namespace, name string) (map[string]string, bool) {
	o := c.objects[id{kind, namespace, name}]
	if o == nil {
		return nil, false
	}
	var content struct {
		Data       map[string]string
		StringData map[string]string `yaml:"stringData"`
	}
	o.read(&content)
	all := make(map[string]string, len(content.Data)+len(content.StringData))
	for key, value := range content.Data {
		if kind == "Secret" {
			value = unbase64(value)
		}
		all[key] = value
	}
	maps.Copy(all, content.StringData)
	return all, true
}

// selects reports whether labels have all that a selector wants.
func selects(selector, labels map[string]string) bool {
	for key, value := range selector {
		if labels[key] != value {
			return false
		}
	}
	return len(selector) > 0
}
