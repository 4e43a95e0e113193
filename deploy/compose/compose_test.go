//go:build e2e

// Package compose_test checks, without a container engine, what one would run: the compose file parses, its Dockerfiles
// build existing sources, and the services accept the settings that it gives them.
package compose_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
)

const root = "../.."

func load(t *testing.T) *types.Project {
	t.Helper()
	return loadWith(t, nil, "docker-compose.yaml")
}

// loadWith returns the project of files of the repository, with variables of the shell as NAME=value.
func loadWith(t *testing.T, variables []string, files ...string) *types.Project {
	t.Helper()
	paths := make([]string, len(files))
	for i, file := range files {
		paths[i] = filepath.Join(root, file)
	}
	options, err := cli.NewProjectOptions(paths, cli.WithEnv(variables), cli.WithoutEnvironmentResolution)
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return project
}

// command returns the name of a service's program, services/<name>/cmd/<name>, and reports whether the service is built
// from the tree's services folder.
func command(service types.ServiceConfig) (name string, ours bool) {
	name = filepath.Base(filepath.Dir(service.Build.Dockerfile))
	return name, strings.HasPrefix(service.Build.Dockerfile, "services/")
}

func TestComposeStartsEveryService(t *testing.T) {
	project := load(t)
	for _, name := range []string{"postgres", "redis", "setup", "gateway", "webhook-egress", "notify", "edge", "control", "fakes", "otel-collector", "prometheus", "grafana"} {
		if _, err := project.GetService(name); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"gateway", "webhook-egress", "notify", "edge"} {
		service, err := project.GetService(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := service.DependsOn[name+"-migrate"]; !ok || !service.ReadOnly || !slices.Contains(service.CapDrop, "ALL") {
			t.Errorf("%s: must wait for its migration, on a read-only root without capabilities", name)
		}
		migration, err := project.GetService(name + "-migrate")
		if err != nil || !slices.Equal(migration.Command, types.ShellCommand{"migrate"}) {
			t.Errorf("%s-migrate: %v, command %v", name, err, migration.Command)
		}
	}
	control, err := project.GetService("control")
	if err != nil || !slices.Equal(control.Command, types.ShellCommand{"control"}) || !control.ReadOnly || !slices.Contains(control.CapDrop, "ALL") {
		t.Errorf("control: %v, command %v; must run the role on a read-only root without capabilities", err, control.Command)
	}
}

// Other machines reach the edge's customer face, and nothing else.
func TestOnlyTheEdgeIsOpen(t *testing.T) {
	for _, service := range load(t).Services {
		for _, p := range service.Ports {
			if open := p.HostIP != "127.0.0.1"; open != (service.Name == "edge" && p.Published == "8080") {
				t.Errorf("%s: port %s is published at %q", service.Name, p.Published, p.HostIP)
			}
		}
	}
}

// Mounted paths of the tree exist, and Prometheus scrapes services that compose starts, at ports that they serve.
func TestMountsAndScrapeTargetsExist(t *testing.T) {
	project := load(t)
	for _, service := range project.Services {
		for _, mount := range service.Volumes {
			if mount.Type != types.VolumeTypeBind {
				continue
			}
			if _, err := os.Stat(mount.Source); err != nil {
				t.Errorf("%s mounts %s: %v", service.Name, mount.Source, err)
			}
		}
	}
	config, err := os.ReadFile(filepath.Join(root, "deploy/observability/prometheus/prometheus.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	targets := regexp.MustCompile(`targets: \["([a-z-]+):(\d+)"\]`).FindAllStringSubmatch(string(config), -1)
	if len(targets) < 5 {
		t.Fatalf("targets %v", targets)
	}
	for _, target := range targets {
		service, err := project.GetService(target[1])
		if err != nil {
			t.Errorf("Prometheus scrapes %s: %v", target[0], err)
			continue
		}
		if ours := service.Build != nil; ours && !slices.ContainsFunc(service.Ports, func(p types.ServicePortConfig) bool { return p.Published == target[2] }) {
			t.Errorf("Prometheus scrapes %s at port %s, which it doesn't serve", target[1], target[2])
		}
	}
}

var copied = regexp.MustCompile(`(?m)^COPY ([^-].*) \S+$`)

func TestDockerfilesBuildExistingSources(t *testing.T) {
	for _, service := range load(t).Services {
		if service.Build == nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, service.Build.Dockerfile))
		if err != nil {
			t.Errorf("%s: %v", service.Name, err)
			continue
		}
		for _, match := range copied.FindAllStringSubmatch(string(text), -1) {
			for source := range strings.FieldsSeq(match[1]) {
				if _, err := os.Stat(filepath.Join(root, source)); err != nil {
					t.Errorf("%s copies %s: %v", service.Build.Dockerfile, source, err)
				}
			}
		}
		if name, ours := command(service); ours && !strings.Contains(string(text), "./cmd/"+name) {
			t.Errorf("%s does not build ./cmd/%s", service.Build.Dockerfile, name)
		}
		for _, need := range []string{"CGO_ENABLED=0", "GOWORK=off", "USER nonroot"} {
			if !strings.Contains(string(text), need) {
				t.Errorf("%s: no %s", service.Build.Dockerfile, need)
			}
		}
	}
}

// A service refuses settings that it doesn't know, so its own `config` command checks them, without the files of a
// container. It has the commands that it is started and asked for its health with.
func TestServicesAcceptTheirSettingsAndCommands(t *testing.T) {
	programs := make(map[string]string)
	for _, service := range load(t).Services {
		if service.Build == nil {
			continue
		}
		name, ours := command(service)
		if !ours {
			continue
		}
		if programs[name] == "" {
			programs[name] = filepath.Join(t.TempDir(), name)
			build := exec.CommandContext(t.Context(), "go", "build", "-o", programs[name], "./services/"+name+"/cmd/"+name)
			build.Dir = root
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
		t.Run(service.Name, func(t *testing.T) {
			run := exec.CommandContext(t.Context(), programs[name], "config", "--skip-files")
			for key, value := range service.Environment {
				if value != nil {
					run.Env = append(run.Env, key+"="+*value)
				}
			}
			if out, err := run.CombinedOutput(); err != nil {
				t.Errorf("config: %v\n%s", err, out)
			}
			calls := [][]string{service.Command}
			if !strings.HasSuffix(service.Name, "-migrate") {
				if service.HealthCheck == nil || len(service.HealthCheck.Test) < 3 || service.HealthCheck.Test[0] != "CMD" || service.HealthCheck.Test[1] != "/"+name {
					t.Fatalf("no health check by /%s: %+v", name, service.HealthCheck)
				}
				calls = append(calls, service.HealthCheck.Test[2:])
			}
			for _, call := range calls {
				if out, err := exec.CommandContext(t.Context(), programs[name], append([]string{"help"}, call[:min(1, len(call))]...)...).CombinedOutput(); err != nil {
					t.Errorf("%v: %v\n%s", call, err, out)
				}
			}
			if role := service.HealthCheck; role != nil && service.Name != name && role.Test[len(role.Test)-1] != service.Name {
				t.Errorf("the health of %s is asked by %v", service.Name, role.Test)
			}
		})
	}
}

// Every third-party image has a fixed version. setup waits until the stores are healthy, and the migrations wait for
// setup.
func TestImagesArePinnedAndStoresAwaited(t *testing.T) {
	project := load(t)
	for _, service := range project.Services {
		if service.Build != nil {
			continue
		}
		if _, tag, found := strings.Cut(service.Image, ":"); !found || tag == "latest" || tag == "" {
			t.Errorf("%s: image %q has no version", service.Name, service.Image)
		}
	}
	for _, store := range []string{"postgres", "redis"} {
		service, err := project.GetService(store)
		if err != nil {
			t.Fatal(err)
		}
		if check := service.HealthCheck; check == nil || check.Disable || len(check.Test) < 2 {
			t.Errorf("%s has no health check: %+v", store, check)
		}
		setup, err := project.GetService("setup")
		if err != nil || setup.DependsOn[store].Condition != types.ServiceConditionHealthy {
			t.Errorf("setup does not wait for %s: %v", store, err)
		}
	}
	for _, service := range project.Services {
		if name, ours := commandOf(service); ours && strings.HasSuffix(service.Name, "-migrate") && service.DependsOn["setup"].Condition != types.ServiceConditionCompletedSuccessfully {
			t.Errorf("the migration of %s does not wait for setup", name)
		}
	}
}

// commandOf is command for services of any kind, with and without a Dockerfile.
func commandOf(service types.ServiceConfig) (name string, ours bool) {
	if service.Build == nil {
		return "", false
	}
	return command(service)
}

// Every secret that a service reads is one that `setup` creates, in a volume that the service mounts, and none is in
// its environment.
func TestSecretsAreMade(t *testing.T) {
	made, err := os.ReadFile(filepath.Join(root, "deploy/dev/stack/secret.go"))
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for _, service := range load(t).Services {
		if _, ours := commandOf(service); !ours {
			continue
		}
		for name, value := range service.Environment {
			file, secret := strings.CutPrefix(*value, "/secrets/")
			switch {
			case secret && !strings.HasPrefix(file, "database/") && !strings.Contains(string(made), `"`+file+`"`):
				t.Errorf("%s: setup doesn't create %s, which %s names", service.Name, file, name)
			case secret && !slices.ContainsFunc(service.Volumes, func(v types.ServiceVolumeConfig) bool { return v.Target == "/secrets" && v.ReadOnly }):
				t.Errorf("%s reads %s from a volume that it doesn't have", service.Name, name)
			case strings.Contains(*value, "://") && strings.Contains(*value, "@"):
				t.Errorf("%s: %s holds a credential", service.Name, name)
			}
			if secret {
				files++
			}
		}
	}
	if files < 20 {
		t.Errorf("%d secrets seen", files)
	}
}

// requiredSettings are settings without which `serve` refuses to start, which `config` doesn't check.
var requiredSettings = map[string][]string{
	"edge":    {"EDGE_SERVICE_TOKEN_FILE", "EDGE_KEY_PEPPER_FILE", "EDGE_CONTROL_URL", "EDGE_GATEWAY_URL", "EDGE_WEBHOOK_EGRESS_URL", "EDGE_NOTIFY_URL"},
	"control": {"EDGE_SERVICE_TOKENS_FILE", "EDGE_KEY_PEPPER_FILE", "EDGE_CONTROL_TOKEN_FILE", "EDGE_CONSOLE_URL"},
	"gateway": {"GATEWAY_SERVICE_TOKENS_FILE"}, "webhook-egress": {"WEBHOOK_EGRESS_SERVICE_TOKENS_FILE"},
	"notify": {"NOTIFY_SERVICE_TOKENS_FILE", "NOTIFY_ENCRYPTION_KEY_FILE"},
}

// The addresses in the services' settings are names and ports of services that compose starts.
func TestServicesFindOneAnother(t *testing.T) {
	project := load(t)
	address := regexp.MustCompile(`^(?:http://)?([a-z-]+):(\d+)$`)
	for name, settings := range requiredSettings {
		service, err := project.GetService(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, setting := range settings {
			if value := service.Environment[setting]; value == nil || *value == "" {
				t.Errorf("%s: %s is missing", name, setting)
			}
		}
		for setting, value := range service.Environment {
			found := address.FindStringSubmatch(*value)
			if found == nil || setting == "OTEL_EXPORTER_OTLP_ENDPOINT" {
				continue
			}
			other, err := project.GetService(found[1])
			if err != nil || !slices.ContainsFunc(other.Ports, func(p types.ServicePortConfig) bool { return p.Published == found[2] }) {
				t.Errorf("%s: no service serves %s, which is the value of %s (%v)", name, *value, setting, err)
			}
		}
	}
}
