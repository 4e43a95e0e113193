//go:build k8s

package k8s_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

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
			if job, _ := find(all, "Job", name+"-migrate"); name != control && job.Spec.Template.Spec.RestartPolicy != "Never" {
				t.Errorf("%s: %s has no migration whose failed pods stay with their logs", overlay, name)
			}
		}
	}
	production, _ := build(t, "overlays/production")
	scaler, _ := find(production, "HorizontalPodAutoscaler", "webhook-egress")
	if !slices.ContainsFunc(scaler.Spec.Metrics, func(m metric) bool { return m.External.Metric.Name == "switchyard_webhook_backlogged_flows" }) {
		t.Error("webhook-egress doesn't scale by its backlog")
	}
}

// With the component of volumes every pod of the gateway has a spool that outlives it, and no other volume of that name.
func TestSpoolVolumes(t *testing.T) {
	all, _ := build(t, "overlays/production")
	workload, _ := find(all, "StatefulSet", "gateway")
	claims := workload.Spec.VolumeClaimTemplates
	if len(claims) != 1 || claims[0].Metadata.Name != "spool" {
		t.Errorf("the gateway claims %+v, want its spool", claims)
	}
	for _, v := range workload.Spec.Template.Spec.Volumes {
		if v.Name == "spool" {
			t.Error("the gateway has another volume named spool")
		}
	}
	if workload.Spec.ServiceName != "gateway" {
		t.Errorf("the gateway's service is %q", workload.Spec.ServiceName)
	}
}

// Only the gateway keeps files that must outlive a container: any other pod may be deleted at any moment.
func TestOthersHaveNoState(t *testing.T) {
	for _, overlay := range overlays(t) {
		all, _ := build(t, overlay)
		for _, o := range all {
			if !o.serves() || o.Metadata.Name == "gateway" {
				continue
			}
			if o.Kind != "Deployment" || len(o.Spec.VolumeClaimTemplates) > 0 {
				t.Errorf("%s: %s is a %s with claims %+v", overlay, o.Metadata.Name, o.Kind, o.Spec.VolumeClaimTemplates)
			}
			for _, v := range o.Spec.Template.Spec.Volumes {
				if v.Name == "spool" {
					t.Errorf("%s: %s has a volume named spool", overlay, o.Metadata.Name)
				}
			}
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

// A service refuses settings that it doesn't know, so its own `config` command checks them, without the files of a cluster. It has
// the command that it is started with.
func TestServicesAcceptTheirSettings(t *testing.T) {
	all, _ := build(t, "overlays/production")
	for _, o := range all {
		if !o.hasPods() {
			continue
		}
		name := o.program()
		if out, err := configOf(t, o); err != nil {
			t.Errorf("%s/%s: config: %v\n%s", o.Kind, o.Metadata.Name, err, out)
		}
		help := exec.CommandContext(t.Context(), "go", append([]string{"run", "./services/" + name + "/cmd/" + name, "help"}, o.Spec.Template.Spec.Containers[0].Args...)...)
		help.Dir = "../.."
		if out, err := help.CombinedOutput(); err != nil {
			t.Errorf("%s/%s: args: %v\n%s", o.Kind, o.Metadata.Name, err, out)
		}
	}
}

// configOf returns what the command `config` of an object's program prints with the settings of its pods.
func configOf(t *testing.T, o object) ([]byte, error) {
	t.Helper()
	run := exec.CommandContext(t.Context(), "go", "run", "./services/"+o.program()+"/cmd/"+o.program(), "config", "--skip-files")
	run.Dir = "../.."
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "SWITCHYARD_") {
			run.Env = append(run.Env, entry)
		}
	}
	for _, env := range o.Spec.Template.Spec.Containers[0].Env {
		run.Env = append(run.Env, env.Name+"="+env.Value)
	}
	return run.CombinedOutput()
}

// byOverlay are mounts that settings of an overlay name.
var byOverlay = []string{"/config", "/cache-key"}

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
				if !slices.Contains(byOverlay, mount.MountPath) && !slices.ContainsFunc(c.Env, func(e variable) bool {
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
