//go:build k8s

// Package k8s_test checks the manifests offline: every overlay builds, an API server would accept it, and it keeps the
// project's rules. `make k8s` runs the tests and names the programs that they need.
package k8s_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.yaml.in/yaml/v3"

	"switchyard.dev/deploy/dev/devtest"
)

var services = []string{"edge", "gateway", "webhook-egress", "notify"}

// control is the edge's second role, which has objects of its own but for the program and the migration.
const control = "control"

// program returns the service whose program an object's pods run.
func (o object) program() string {
	if o.Metadata.Name == control {
		return "edge"
	}
	return strings.TrimSuffix(o.Metadata.Name, "-migrate")
}

// object holds the fields of Kubernetes objects that the tests read.
type object struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct {
		Name, Namespace string
		Annotations     map[string]string
	}
	Spec struct {
		Rules          []rule
		Replicas       *int
		MinAvailable   any                         `yaml:"minAvailable"`
		MaxUnavailable any                         `yaml:"maxUnavailable"`
		MinReplicas    int                         `yaml:"minReplicas"`
		ScaleTargetRef struct{ Kind, Name string } `yaml:"scaleTargetRef"`
		Metrics        []metric
		PodSelector    struct {
			MatchLabels map[string]string `yaml:"matchLabels"`
		} `yaml:"podSelector"`
		Selector             any
		ServiceName          string `yaml:"serviceName"`
		VolumeClaimTemplates []struct {
			Metadata struct{ Name string }
		} `yaml:"volumeClaimTemplates"`
		SecretName string   `yaml:"secretName"`
		DNSNames   []string `yaml:"dnsNames"`
		Usages     []string
		Template   struct{ Spec pod }
	}
}

// rule is a rule of an Ingress.
type rule struct {
	HTTP struct {
		Paths []struct {
			Path     string
			PathType string `yaml:"pathType"`
		}
	} `yaml:"http"`
}

type metric struct {
	Type     string
	External struct{ Metric struct{ Name string } }
}

type variable struct {
	Name, Value string
	ValueFrom   any `yaml:"valueFrom"`
}

type pod struct {
	ServiceAccountName           string `yaml:"serviceAccountName"`
	AutomountServiceAccountToken *bool  `yaml:"automountServiceAccountToken"`
	RestartPolicy                string `yaml:"restartPolicy"`
	TerminationGracePeriod       int    `yaml:"terminationGracePeriodSeconds"`
	TopologySpread               []any  `yaml:"topologySpreadConstraints"`
	SecurityContext              struct {
		RunAsNonRoot   bool                  `yaml:"runAsNonRoot"`
		SeccompProfile struct{ Type string } `yaml:"seccompProfile"`
	} `yaml:"securityContext"`
	Containers []container
	Volumes    []volume
}

type volume struct {
	Name   string
	Secret *struct {
		SecretName string `yaml:"secretName"`
	}
}

type mount struct {
	Name      string
	MountPath string `yaml:"mountPath"`
}

type probe struct {
	HTTPGet struct{ Scheme string } `yaml:"httpGet"`
}

type container struct {
	Name, Image     string
	Args            []string
	Env             []variable
	VolumeMounts    []mount `yaml:"volumeMounts"`
	StartupProbe    *probe  `yaml:"startupProbe"`
	LivenessProbe   *probe  `yaml:"livenessProbe"`
	ReadinessProbe  *probe  `yaml:"readinessProbe"`
	Resources       struct{ Requests, Limits map[string]string }
	SecurityContext struct {
		AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
		ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
		Capabilities             struct{ Drop []string }
	} `yaml:"securityContext"`
}

// overlays returns the folders of the overlays, and the names of the chart's values that stand for overlays.
func overlays(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("overlays/*")
	if err != nil || len(found) < 2 {
		t.Fatalf("overlays %v: %v", found, err)
	}
	return append(found, chartProduction, chartStateless)
}

// built has the text of each overlay that was built.
var built sync.Map

// build returns an overlay's objects and their text.
func build(t *testing.T, overlay string) ([]object, []byte) {
	t.Helper()
	text, ok := built.Load(overlay)
	if !ok {
		if values, ofChart := charts[overlay]; ofChart {
			text = []byte(render(t, values)[0].must(t))
		} else {
			text = kustomize(t, overlay)
		}
		built.Store(overlay, text)
	}
	return decode(t, text.([]byte)), text.([]byte)
}

func kustomize(t *testing.T, overlay string) []byte {
	t.Helper()
	run := exec.CommandContext(t.Context(), devtest.Tool(t, "KUSTOMIZE"), "build", overlay)
	var complaints bytes.Buffer
	run.Stderr = &complaints
	text, err := run.Output()
	if err != nil || complaints.Len() > 0 {
		t.Fatalf("kustomize build %s: %v\n%s", overlay, err, complaints.String())
	}
	return text
}

func decode(t *testing.T, text []byte) (all []object) {
	t.Helper()
	for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var o object
		switch err := decoder.Decode(&o); {
		case errors.Is(err, io.EOF):
			return all
		case err != nil:
			t.Fatal(err)
		}
		all = append(all, o)
	}
}

func find(all []object, kind, name string) (object, bool) {
	i := slices.IndexFunc(all, func(o object) bool { return o.Kind == kind && o.Metadata.Name == name })
	if i < 0 {
		return object{}, false
	}
	return all[i], true
}

// foreign lists API groups of operators, whose kinds have no schema here.
var foreign = [][]byte{[]byte("apiVersion: monitoring.coreos.com/"), []byte("apiVersion: cert-manager.io/"), []byte("apiVersion: keda.sh/"), []byte("apiVersion: gateway.networking.k8s.io/")}

// An API server of the pinned version would accept every object, except those of foreign groups, which aren't checked.
func TestOverlaysAreValid(t *testing.T) {
	for _, overlay := range overlays(t) {
		_, text := build(t, overlay)
		validate(t, overlay, text)
	}
}

// validate checks the objects of Kubernetes' own groups against the API server's schemas.
func validate(t *testing.T, what string, text []byte) {
	t.Helper()
	var known [][]byte
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		if !slices.ContainsFunc(foreign, func(group []byte) bool { return bytes.Contains(document, group) }) {
			known = append(known, document)
		}
	}
	path := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(path, bytes.Join(known, []byte("\n---\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), devtest.Tool(t, "KUBECTL_VALIDATE"), "--version", "1.30", path).CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", what, err, out)
	}
}

// kindOf returns the kind of a service's workload: with volumes for its spools, the gateway is a StatefulSet.
func kindOf(overlay, service string) string {
	if strings.HasSuffix(overlay, "/production") && service == "gateway" {
		return "StatefulSet"
	}
	return "Deployment"
}

// serves reports whether an object runs the pods of a service, hasPods whether it runs any.
func (o object) serves() bool  { return o.Kind == "Deployment" || o.Kind == "StatefulSet" }
func (o object) hasPods() bool { return o.serves() || o.Kind == "Job" }
