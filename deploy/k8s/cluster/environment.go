package cluster

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"switchyard.dev/deploy/dev/port"
)

// environment returns what the container is started with: what its manifest says, with folders for the paths of mounts
// and addresses of this machine for the names of Services and for what the program listens on. The error is in kubelet's
// words.
func (c *Cluster) environment(p *pod, program string, paths map[string]string) ([]string, error) {
	env := []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOSTNAME=" + p.name}
	of := p.spec.Containers[0]
	for _, from := range of.EnvFrom {
		if from.ConfigMapRef == nil {
			return nil, errors.New("envFrom of a kind that this cluster has not")
		}
		data, found := c.data("ConfigMap", p.namespace, from.ConfigMapRef.Name)
		if !found && !from.ConfigMapRef.Optional {
			return nil, fmt.Errorf("Error: configmap %q not found", from.ConfigMapRef.Name)
		}
		for name, value := range data {
			env = append(env, name+"="+value)
		}
	}
	for _, e := range of.Env {
		if e.ValueFrom != nil {
			return nil, fmt.Errorf("%s: valueFrom, which this cluster has not", e.Name)
		}
		env = append(env, e.Name+"="+e.Value)
	}
	for i, entry := range env {
		name, value, _ := strings.Cut(entry, "=")
		value, err := c.resolved(p.namespace, mounted(value, paths))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		env[i] = name + "=" + value
	}
	return c.listening(p, program, env)
}

// mounted returns a path below a mount as a path on this machine, and any other value as it is.
func mounted(value string, paths map[string]string) string {
	for mount, folder := range paths {
		if rest, below := strings.CutPrefix(value, mount); below && (rest == "" || rest[0] == '/') {
			return folder + rest
		}
	}
	return value
}

// resolved returns an address, or a URL, of a Service as one on this machine, and any other value as it is.
func (c *Cluster) resolved(namespace, value string) (string, error) {
	address := value
	if u, err := url.Parse(value); err == nil && u.Host != "" {
		address = u.Host
	}
	host, number, _ := net.SplitHostPort(address) // The host of what is no address is empty, as no Service's name is.
	host, _ = strings.CutSuffix(strings.TrimSuffix(host, ".cluster.local"), "."+namespace+".svc")
	host, _ = strings.CutSuffix(host, "."+namespace)
	service, found := c.services[id{"Service", namespace, host}]
	if !found {
		return value, nil
	}
	n, err := strconv.Atoi(number)
	if err != nil || service[n] == nil {
		return "", fmt.Errorf("the Service %s has no port %s", host, number)
	}
	return strings.Replace(value, address, service[n].address(), 1), nil
}

// wildcard matches a setting that is an address to listen on, as the program's own command config prints it.
var wildcard = regexp.MustCompile(`(?m)^([A-Z_]+_LISTEN)=\S*:(\d+)$`)

// listening adds the settings by which the program listens on an address of its own for each port of its manifest: pods
// have no network of their own here. A port on which the program does not listen is an error. A program that refuses its
// settings gets none, and ends by itself.
func (c *Cluster) listening(p *pod, program string, env []string) ([]string, error) {
	of := p.spec.Containers[0]
	p.ports = make(map[int]string)
	if len(of.Ports) == 0 {
		return env, nil
	}
	known, asked := c.settings[p.owner.Name+p.hash]
	if !asked {
		run := exec.CommandContext(c.running, program, "config", "--skip-files")
		run.Env = env
		out, err := run.Output()
		if _, refused := errors.AsType[*exec.ExitError](err); refused {
			return env, nil
		}
		if err != nil {
			return nil, err
		}
		for _, found := range wildcard.FindAllStringSubmatch(string(out), -1) {
			known = append(known, found[1]+"="+found[2])
		}
		c.settings[p.owner.Name+p.hash] = known
	}
	taken := func(number int) bool { return !port.Available(c.running, port.At(number)) }
	if p.numbers == nil || slices.ContainsFunc(p.numbers, taken) {
		numbers, err := port.Free(c.running, len(known))
		if err != nil {
			return nil, err
		}
		p.numbers = numbers
	}
	for i, setting := range known {
		name, number, _ := strings.Cut(setting, "=")
		env = append(env, name+"="+port.At(p.numbers[i]))
		if n := of.port(number); n != 0 {
			p.ports[n] = port.At(p.numbers[i])
		}
	}
	for _, declared := range of.Ports {
		if p.ports[declared.ContainerPort] == "" {
			return nil, fmt.Errorf("containerPort %d: the program listens on %s", declared.ContainerPort, known)
		}
	}
	return env, nil
}

func makeDir(dir string) error { return os.MkdirAll(dir, 0o700) }

func writeFile(path, text string) error {
	if err := makeDir(filepath.Dir(path)); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o600)
}
