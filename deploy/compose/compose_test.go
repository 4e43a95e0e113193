//go:build e2e

// Package compose_test checks without a container engine what one would run:
// the compose file parses, its Dockerfiles build what is there, and the
// services accept the settings it gives them.
package compose_test

import (
	"context"
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
	options, err := cli.NewProjectOptions([]string{filepath.Join(root, "docker-compose.yaml")}, cli.WithoutEnvironmentResolution)
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return project
}

// command finds the program of a service's image: services/<name>/cmd/<name>.
func command(service types.ServiceConfig) (name string, ours bool) {
	name = filepath.Base(filepath.Dir(service.Build.Dockerfile))
	return name, strings.HasPrefix(service.Build.Dockerfile, "services/")
}

func TestComposeStartsTheWholeHouse(t *testing.T) {
	project := load(t)
	for _, name := range []string{"postgres", "redis", "setup", "gateway", "webhook-egress", "notify", "edge", "fakes", "otel-collector", "prometheus", "grafana"} {
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
}

// What is mounted from the tree is there, and Prometheus asks services that
// compose starts, at ports that they serve.
func TestWatchersSeeWhatIsThere(t *testing.T) {
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
			t.Errorf("Prometheus asks %s: %v", target[0], err)
			continue
		}
		if ours := service.Build != nil; ours && !slices.ContainsFunc(service.Ports, func(p types.ServicePortConfig) bool { return p.Published == target[2] }) {
			t.Errorf("Prometheus asks %s at %s, which it doesn't serve", target[1], target[2])
		}
	}
}

var copied = regexp.MustCompile(`(?m)^COPY ([^-].*) \S+$`)

func TestDockerfilesBuildWhatIsThere(t *testing.T) {
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

// A service refuses settings that it doesn't know, so that its own `config`
// command is the check.
func TestServicesAcceptTheirSettings(t *testing.T) {
	for _, service := range load(t).Services {
		if service.Build == nil {
			continue
		}
		name, ours := command(service)
		if !ours {
			continue
		}
		t.Run(service.Name, func(t *testing.T) {
			run := exec.CommandContext(context.Background(), "go", "run", "./services/"+name+"/cmd/"+name, "config")
			run.Dir = root
			for _, entry := range os.Environ() {
				if !strings.HasPrefix(entry, "SWITCHYARD_") {
					run.Env = append(run.Env, entry)
				}
			}
			for key, value := range service.Environment {
				if value != nil {
					run.Env = append(run.Env, key+"="+*value)
				}
			}
			if out, err := run.CombinedOutput(); err != nil {
				t.Errorf("config: %v\n%s", err, out)
			}
		})
	}
}
