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
	"testing"

	"go.yaml.in/yaml/v3"
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
	Metadata   struct{ Name, Namespace string }
	Spec       struct {
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

func overlays(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("overlays/*")
	if err != nil || len(found) < 2 {
		t.Fatalf("overlays %v: %v", found, err)
	}
	return found
}

func tool(t *testing.T, setting string) string {
	t.Helper()
	path := os.Getenv(setting)
	if path == "" {
		t.Fatalf("%s names no program: run `make k8s`", setting)
	}
	return path
}

// build returns an overlay's objects and their text.
func build(t *testing.T, overlay string) ([]object, []byte) {
	t.Helper()
	run := exec.CommandContext(t.Context(), tool(t, "KUSTOMIZE"), "build", overlay)
	var complaints bytes.Buffer
	run.Stderr = &complaints
	text, err := run.Output()
	if err != nil || complaints.Len() > 0 {
		t.Fatalf("kustomize build %s: %v\n%s", overlay, err, complaints.String())
	}
	var all []object
	for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var o object
		switch err := decoder.Decode(&o); {
		case errors.Is(err, io.EOF):
			return all, text
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
var foreign = [][]byte{[]byte("apiVersion: monitoring.coreos.com/"), []byte("apiVersion: cert-manager.io/")}

// An API server of the pinned version would accept every object, except those of foreign groups, which aren't checked.
func TestOverlaysAreValid(t *testing.T) {
	for _, overlay := range overlays(t) {
		_, text := build(t, overlay)
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
		out, err := exec.CommandContext(t.Context(), tool(t, "KUBECTL_VALIDATE"), "--version", "1.30", path).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", overlay, err, out)
		}
	}
}

// kindOf returns the kind of a service's pods: with a volume for each spool, those of gateway and edge are stateful.
func kindOf(overlay, service string) string {
	if overlay == "overlays/production-volumes" && (service == "gateway" || service == "edge") {
		return "StatefulSet"
	}
	return "Deployment"
}

// serves reports whether an object runs the pods of a service, hasPods whether it runs any.
func (o object) serves() bool  { return o.Kind == "Deployment" || o.Kind == "StatefulSet" }
func (o object) hasPods() bool { return o.serves() || o.Kind == "Job" }

// Every service has all its objects, and `kubectl scale` scales it alone.
func TestServicesAreWhole(t *testing.T) {
	for _, overlay := range overlays(t) {
		all, _ := build(t, overlay)
		for _, name := range append([]string{control}, services...) {
			for _, kind := range []string{kindOf(overlay, name), "Service", "ServiceAccount", "HorizontalPodAutoscaler", "PodDisruptionBudget", "NetworkPolicy"} {
				if _, ok := find(all, kind, name); !ok {
					t.Errorf("%s: %s has no %s", overlay, name, kind)
				}
			}
			if workload, _ := find(all, kindOf(overlay, name), name); workload.Spec.Replicas != nil {
				t.Errorf("%s: %s holds a replica count, which an apply would force on the autoscaler and on kubectl scale", overlay, name)
			}
			if scaler, _ := find(all, "HorizontalPodAutoscaler", name); scaler.Spec.ScaleTargetRef.Name != name || scaler.Spec.ScaleTargetRef.Kind != kindOf(overlay, name) {
				t.Errorf("%s: the autoscaler of %s scales %+v", overlay, name, scaler.Spec.ScaleTargetRef)
			}
			if _, ok := find(all, "Job", name+"-migrate"); !ok && name != control {
				t.Errorf("%s: %s has no migration", overlay, name)
			}
		}
	}
	production, _ := build(t, "overlays/production")
	scaler, _ := find(production, "HorizontalPodAutoscaler", "webhook-egress")
	if !slices.ContainsFunc(scaler.Spec.Metrics, func(m metric) bool { return m.External.Metric.Name == "switchyard_webhook_backlogged_flows" }) {
		t.Error("webhook-egress doesn't scale by its backlog")
	}
}

// With the component of volumes every pod of gateway and edge has a spool that outlives it, and no other.
func TestSpoolVolumes(t *testing.T) {
	all, _ := build(t, "overlays/production-volumes")
	for _, service := range []string{"gateway", "edge"} {
		workload, _ := find(all, "StatefulSet", service)
		claims := workload.Spec.VolumeClaimTemplates
		if len(claims) != 1 || claims[0].Metadata.Name != "spool" {
			t.Errorf("%s claims %+v, want its spool", service, claims)
		}
		for _, v := range workload.Spec.Template.Spec.Volumes {
			if v.Name == "spool" {
				t.Errorf("%s has another volume of that name", service)
			}
		}
		if workload.Spec.ServiceName != service {
			t.Errorf("%s: its service is %q", service, workload.Spec.ServiceName)
		}
	}
}

// Pods don't run as root and have no capabilities, no writable root file system and no cluster token; secrets are
// files.
func TestPodsAreHardened(t *testing.T) {
	for _, overlay := range overlays(t) {
		all, _ := build(t, overlay)
		pods := 0
		for _, o := range all {
			if !o.hasPods() {
				continue
			}
			pods++
			where, spec := overlay+" "+o.Kind+"/"+o.Metadata.Name, o.Spec.Template.Spec
			if !spec.SecurityContext.RunAsNonRoot {
				t.Errorf("%s: may run as root", where)
			}
			if profile := spec.SecurityContext.SeccompProfile.Type; profile != "RuntimeDefault" {
				t.Errorf("%s: seccomp profile %q, want RuntimeDefault", where, profile)
			}
			if mounts := spec.AutomountServiceAccountToken; mounts == nil || *mounts || spec.ServiceAccountName == "" {
				t.Errorf("%s: service account %q must be named and its token not mounted", where, spec.ServiceAccountName)
			}
			for _, c := range spec.Containers {
				security := c.SecurityContext
				if !security.ReadOnlyRootFilesystem {
					t.Errorf("%s %s: the root file system is writable", where, c.Name)
				}
				if !slices.Contains(security.Capabilities.Drop, "ALL") {
					t.Errorf("%s %s: drops the capabilities %q, want ALL", where, c.Name, security.Capabilities.Drop)
				}
				if escalates := security.AllowPrivilegeEscalation; escalates == nil || *escalates {
					t.Errorf("%s %s: privileges may be escalated", where, c.Name)
				}
				if c.Resources.Requests["cpu"] == "" || c.Resources.Requests["memory"] == "" || c.Resources.Limits["memory"] == "" {
					t.Errorf("%s %s: resources %+v", where, c.Name, c.Resources)
				}
				for _, env := range c.Env {
					if env.ValueFrom != nil {
						t.Errorf("%s: %s comes from elsewhere; secrets are files", where, env.Name)
					}
				}
				for name, set := range map[string]*probe{"startup": c.StartupProbe, "liveness": c.LivenessProbe, "readiness": c.ReadinessProbe} {
					if o.serves() && set == nil {
						t.Errorf("%s %s: no %s probe", where, c.Name, name)
					}
				}
			}
			if o.serves() && (len(spec.TopologySpread) == 0 || spec.TerminationGracePeriod < 35) {
				t.Errorf("%s: no topology spread, or too little time to drain", where)
			}
		}
		if pods < 2*len(services)+1 {
			t.Errorf("%s: %d pods checked", overlay, pods)
		}
	}
}

// A service refuses settings that it doesn't know, so its own `config` command checks them. The command reads no file.
func TestServicesAcceptTheirSettings(t *testing.T) {
	all, _ := build(t, "overlays/production")
	for _, o := range all {
		if !o.hasPods() {
			continue
		}
		name := o.program()
		run := exec.CommandContext(t.Context(), "go", "run", "./services/"+name+"/cmd/"+name, "config")
		run.Dir = "../.."
		for _, entry := range os.Environ() {
			if !strings.HasPrefix(entry, "SWITCHYARD_") {
				run.Env = append(run.Env, entry)
			}
		}
		for _, env := range o.Spec.Template.Spec.Containers[0].Env {
			run.Env = append(run.Env, env.Name+"="+env.Value)
		}
		if out, err := run.CombinedOutput(); err != nil {
			t.Errorf("%s/%s: config: %v\n%s", o.Kind, o.Metadata.Name, err, out)
		}
	}
}

// Every mounted path is in a setting, and every volume is mounted. A mounted secret that no setting names is probably
// misspelt.
func TestMountsAndSettingsMeet(t *testing.T) {
	for _, overlay := range overlays(t) {
		all, _ := build(t, overlay)
		for _, o := range all {
			if !o.hasPods() {
				continue
			}
			spec := o.Spec.Template.Spec
			c := spec.Containers[0]
			for _, mount := range c.VolumeMounts {
				if !slices.ContainsFunc(c.Env, func(e variable) bool {
					return e.Value == mount.MountPath || strings.HasPrefix(e.Value, mount.MountPath+"/")
				}) {
					t.Errorf("%s %s: nothing reads %s", overlay, o.Metadata.Name, mount.MountPath)
				}
			}
			if volumes := len(spec.Volumes) + len(o.Spec.VolumeClaimTemplates); volumes != len(c.VolumeMounts) {
				t.Errorf("%s %s: %d volumes, %d mounts", overlay, o.Metadata.Name, volumes, len(c.VolumeMounts))
			}
		}
	}
}
