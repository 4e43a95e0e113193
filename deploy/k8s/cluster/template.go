package cluster

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// workload is the spec of what has pods.
type workload struct {
	Replicas             int
	BackoffLimit         int    `yaml:"backoffLimit"`
	PodManagementPolicy  string `yaml:"podManagementPolicy"`
	VolumeClaimTemplates []struct {
		Metadata struct{ Name string }
		Spec     struct {
			StorageClassName string `yaml:"storageClassName"`
		}
	} `yaml:"volumeClaimTemplates"`
	Template struct {
		Metadata struct{ Labels map[string]string }
		Spec     podSpec
	}
}

func (o *object) workload() workload {
	var of struct{ Spec workload }
	o.read(&of)
	return of.Spec
}

type podSpec struct {
	ServiceAccountName string `yaml:"serviceAccountName"`
	RestartPolicy      string `yaml:"restartPolicy"`
	GraceSeconds       int    `yaml:"terminationGracePeriodSeconds"`
	Containers         []container
	InitContainers     []yaml.Node `yaml:"initContainers"`
	Volumes            []volume
	SecurityContext    struct {
		FSGroup             *int   `yaml:"fsGroup"`
		FSGroupChangePolicy string `yaml:"fsGroupChangePolicy"`
	} `yaml:"securityContext"`
}

// ends reports whether the pod is one of a Job, which ends once its container has succeeded.
func (s podSpec) ends() bool { return s.RestartPolicy == "OnFailure" || s.RestartPolicy == "Never" }

func (s podSpec) grace() time.Duration { return time.Duration(max(s.GraceSeconds, 1)) * time.Second }

type volume struct {
	Name   string
	Secret *struct {
		SecretName string `yaml:"secretName"`
		Optional   bool
		Items      []item
	}
	ConfigMap *struct {
		Name     string
		Optional bool
		Items    []item
	} `yaml:"configMap"`
	EmptyDir *struct{} `yaml:"emptyDir"`
}

type item struct{ Key, Path string }

type container struct {
	Name, Image string
	Command     []string
	Args        []string
	EnvFrom     []struct {
		ConfigMapRef *struct {
			Name     string
			Optional bool
		} `yaml:"configMapRef"`
	} `yaml:"envFrom"`
	Env []struct {
		Name, Value string
		ValueFrom   *yaml.Node `yaml:"valueFrom"`
	}
	Ports []struct {
		Name          string
		ContainerPort int `yaml:"containerPort"`
	}
	VolumeMounts []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
	StartupProbe   *probe `yaml:"startupProbe"`
	LivenessProbe  *probe `yaml:"livenessProbe"`
	ReadinessProbe *probe `yaml:"readinessProbe"`
}

// port returns the number of a container's port, by its name or number; 0 when it has no such port.
func (c container) port(named string) int {
	for _, p := range c.Ports {
		if p.Name == named || strconv.Itoa(p.ContainerPort) == named {
			return p.ContainerPort
		}
	}
	return 0
}

// program returns the program of the container's image, which is the only file in it, and its path there.
func (c *Cluster) program(of container) (program, path string, err error) {
	program, found := c.options.Images[of.Image]
	if !found {
		return "", "", fmt.Errorf("Failed to pull image %q: not found", of.Image)
	}
	path = "/" + filepath.Base(program)
	if len(of.Command) > 0 && of.Command[0] != path {
		return "", "", fmt.Errorf("exec: %q: stat %s: no such file or directory", of.Command[0], of.Command[0])
	}
	return program, path, nil
}

// mount makes the folders of a pod's volumes, and returns the folder of each mounted path. The error is in kubelet's
// words.
func (c *Cluster) mount(p *pod) (map[string]string, error) {
	folders := maps.Clone(p.claims)
	for _, v := range p.spec.Volumes {
		dir := filepath.Join(p.dir, "volumes", v.Name)
		folders[v.Name] = dir
		var err error
		switch {
		case v.Secret != nil:
			err = c.fill(dir, "Secret", p.namespace, v.Secret.SecretName, v.Secret.Optional, v.Secret.Items)
		case v.ConfigMap != nil:
			err = c.fill(dir, "ConfigMap", p.namespace, v.ConfigMap.Name, v.ConfigMap.Optional, v.ConfigMap.Items)
		case v.EmptyDir != nil:
			err = makeDir(dir)
		default:
			err = errors.New("a volume of a kind that this cluster has not")
		}
		if err != nil {
			return nil, fmt.Errorf("MountVolume.SetUp failed for volume %q : %w", v.Name, err)
		}
	}
	paths := make(map[string]string)
	for _, m := range p.spec.Containers[0].VolumeMounts {
		if folders[m.Name] == "" {
			return nil, fmt.Errorf("volume mount %q: not found", m.Name)
		}
		paths[m.MountPath] = folders[m.Name]
	}
	return paths, nil
}

// fill writes the files of a volume.
func (c *Cluster) fill(dir, kind, namespace, name string, optional bool, items []item) error {
	data, found := c.data(kind, namespace, name)
	if !found && !optional {
		return fmt.Errorf("%s %q not found", strings.ToLower(kind), name)
	}
	if items == nil {
		for key := range data {
			items = append(items, item{key, key})
		}
	}
	if err := makeDir(dir); err != nil {
		return err
	}
	for _, i := range items {
		text, found := data[i.Key]
		if !found && optional {
			continue
		}
		if !found {
			return fmt.Errorf("references non-existent %s key: %s", strings.ToLower(kind), i.Key)
		}
		if err := writeFile(filepath.Join(dir, i.Path), text); err != nil {
			return err
		}
	}
	return nil
}
