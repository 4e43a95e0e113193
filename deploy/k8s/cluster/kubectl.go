package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Request is a call of a program: what follows its name, the folder that it is called in, and its standard input.
type Request struct {
	Program string
	Args    []string
	Dir     string
	Input   []byte
}

// call is a call of kubectl that is under way.
type call struct {
	*Cluster
	Request

	flags map[string]string
	words []string // the arguments that are no flags
	rest  []string // behind --
	out   io.Writer
}

// verbs lists what kubectl can do here, with the flags of each beside --namespace.
var verbs = map[string]struct {
	flags []string
	run   func(*call, context.Context) error
}{
	"apply":            {[]string{"-f", "-k"}, (*call).apply},
	"create configmap": {[]string{"--from-file"}, (*call).createConfigMap},
	"create secret":    {[]string{"--cert", "--key"}, (*call).createSecret},
	"delete":           {[]string{"--all"}, (*call).delete},
	"exec":             {nil, (*call).exec},
	"get pods":         {nil, (*call).getPods},
	"get secret":       {[]string{"-o"}, (*call).getSecret},
	"port-forward":     {nil, (*call).portForward},
	"rollout status":   {[]string{"--timeout"}, (*call).rolloutStatus},
	"scale":            {[]string{"--replicas"}, (*call).scale},
	"wait":             {[]string{"--for", "--timeout", "--all"}, (*call).wait},
}

// Kubectl does what a line of kubectl says. The error is what kubectl would print.
func (c *Cluster) Kubectl(ctx context.Context, r Request, out io.Writer) error {
	k := &call{Cluster: c, Request: r, flags: map[string]string{"--namespace": "default"}, out: out}
	words, rest := r.Args, []string(nil)
	for i, arg := range words {
		if arg == "--" {
			words, rest = words[:i], words[i+1:]
			break
		}
	}
	k.rest = rest
	given, err := k.read(words)
	if err != nil {
		return err
	}
	for n := 2; n > 0; n-- {
		if len(k.words) < n {
			continue
		}
		name := strings.Join(k.words[:n], " ")
		verb, found := verbs[name]
		if !found {
			continue
		}
		for _, flag := range given {
			if !strings.Contains(" "+strings.Join(verb.flags, " ")+" --namespace ", " "+flag+" ") {
				return fmt.Errorf("error: unknown flag of kubectl %s here: %s", name, flag)
			}
		}
		k.words = k.words[n:]
		return verb.run(k, ctx)
	}
	return fmt.Errorf("error: this cluster has no kubectl %s", strings.Join(r.Args, " "))
}

// read divides the arguments into flags and words, and returns the names of the flags.
func (k *call) read(args []string) (given []string, err error) {
	for i := 0; i < len(args); i++ {
		name, value, has := strings.Cut(args[i], "=")
		if !strings.HasPrefix(name, "-") {
			k.words = append(k.words, args[i])
			continue
		}
		if name == "-n" {
			name = "--namespace"
		}
		if !has && name != "--all" {
			if i++; i == len(args) {
				return nil, fmt.Errorf("error: flag needs an argument: %s", name)
			}
			value = args[i]
		}
		given = append(given, name)
		k.flags[name] = value
	}
	return given, nil
}

func (k *call) namespace() string { return k.flags["--namespace"] }

// path returns a path of the call's folder.
func (k *call) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(k.Dir, name)
}

// timeout returns ctx with the call's timeout, which is cut to deadline: what takes longer here doesn't come.
func (k *call) timeout(ctx context.Context) (context.Context, context.CancelFunc, error) {
	d, err := time.ParseDuration(k.flags["--timeout"])
	if err != nil {
		return nil, nil, fmt.Errorf("error: --timeout: want one here: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, min(d, deadline))
	return ctx, cancel, nil
}

func (k *call) apply(ctx context.Context) error {
	var text []byte
	var err error
	switch folder, file := k.flags["-k"], k.flags["-f"]; {
	case folder != "":
		text, err = k.build(ctx, k.path(folder))
	case file == "-":
		text = k.Input
	case file != "":
		text, err = os.ReadFile(k.path(file))
	default:
		err = errors.New("error: must specify one of -f and -k")
	}
	if err != nil {
		return err
	}
	return k.Cluster.apply(ctx, text, k.namespace(), k.out)
}

func (k *call) createSecret(context.Context) error {
	if len(k.words) != 2 || k.words[0] != "tls" {
		return errors.New("error: kubectl create secret: want tls and a name here")
	}
	certificate, err := os.ReadFile(k.path(k.flags["--cert"]))
	if err != nil {
		return fmt.Errorf("error: %w", err)
	}
	key, err := os.ReadFile(k.path(k.flags["--key"]))
	if err != nil {
		return fmt.Errorf("error: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.objects[id{"Secret", k.namespace(), k.words[1]}] != nil {
		return fmt.Errorf("error: failed to create secret secrets %q already exists", k.words[1])
	}
	printLine(k.out, "secret/%s created", k.words[1])
	return k.put(k.namespace(), k.words[1], "kubernetes.io/tls", map[string]string{"tls.crt": string(certificate), "tls.key": string(key)})
}

func (k *call) createConfigMap(ctx context.Context) error {
	if len(k.words) != 1 {
		return errors.New("error: kubectl create configmap: want a name here")
	}
	file := k.path(k.flags["--from-file"])
	content, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("error: %w", err)
	}
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]string{"name": k.words[0]}, "data": map[string]string{filepath.Base(file): string(content)},
	})
	if err != nil {
		return err
	}
	return k.Cluster.apply(ctx, text, k.namespace(), k.out)
}

func (k *call) delete(ctx context.Context) error {
	_, all := k.flags["--all"]
	switch {
	case len(k.words) == 2 && k.words[0] == "namespace":
		printLine(k.out, "namespace %q deleted", k.words[1])
		ctx, cancel := context.WithTimeout(ctx, deadline)
		defer cancel()
		return k.removeNamespace(ctx, k.words[1])
	case len(k.words) == 1 && k.words[0] == "job" && all:
		k.mu.Lock()
		defer k.mu.Unlock()
		for _, o := range k.ofKind("Job") {
			if o.Namespace == k.namespace() {
				printLine(k.out, "job.batch %q deleted", o.Name)
				if err := k.remove(o.id); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return errors.New("error: kubectl delete: want namespace and a name, or job --all here")
}

func (k *call) getPods(context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	const form = "%-42s %-6s %-12s %s"
	printLine(k.out, form, "NAME", "READY", "STATUS", "RESTARTS")
	for _, p := range k.allPods() {
		if p.namespace != k.namespace() {
			continue
		}
		ready, status := "0/1", strings.SplitN(p.status, "\n", 2)[0]
		if p.isReady() {
			ready, status = "1/1", "Running"
		}
		if p.stopping {
			status = "Terminating"
		}
		printLine(k.out, form, p.name, ready, status, strconv.Itoa(p.restarts))
	}
	return nil
}

func (k *call) getSecret(context.Context) error {
	path, found := strings.CutPrefix(k.flags["-o"], "jsonpath={.data.")
	path, ended := strings.CutSuffix(path, "}")
	if !found || !ended || len(k.words) != 1 {
		return errors.New("error: kubectl get secret: want a name and -o jsonpath='{.data.KEY}' here")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	data, found := k.data("Secret", k.namespace(), k.words[0])
	if !found {
		return fmt.Errorf("Error from server (NotFound): secrets %q not found", k.words[0])
	}
	_, err := io.WriteString(k.out, base64Of(data[strings.ReplaceAll(path, `\.`, ".")]))
	return err
}
