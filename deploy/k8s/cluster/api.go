package cluster

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// kubernetes is the version whose schemas objects are validated with.
const kubernetes = "1.30"

// apply takes objects as the API server does, one after another; those that it refuses are in the error.
func (c *Cluster) apply(ctx context.Context, text []byte, namespace string, out io.Writer) error {
	all, err := parse(text, namespace)
	if err != nil {
		return err
	}
	if err := c.validate(ctx, all); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var refused []error
	for _, o := range all {
		state, err := c.admit(ctx, o)
		if err != nil {
			refused = append(refused, err)
			continue
		}
		printLine(out, "%s %s", o.resource(), state)
	}
	return errors.Join(refused...)
}

// printLine prints a line for the caller, who may have gone.
func printLine(out io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(out, format+"\n", args...)
}

// admit stores an object, and returns what became of it.
func (c *Cluster) admit(ctx context.Context, o *object) (string, error) {
	if o.Namespace != "" && c.objects[id{"Namespace", "", o.Namespace}] == nil {
		return "", fmt.Errorf("Error from server (NotFound): error when creating %q: namespaces %q not found", o.Name, o.Namespace)
	}
	before := c.objects[o.id]
	if before == nil {
		o.uid = c.next()
		c.objects[o.id] = o
		return "created", c.serve(ctx, o)
	}
	if before.text() == o.text() {
		return "unchanged", nil
	}
	if why := frozen(before, o); why != "" {
		return "", fmt.Errorf("The %s %q is invalid: %s", o.Kind, o.Name, why)
	}
	o.uid, o.replicas = before.uid, before.replicas
	c.objects[o.id] = o
	return "configured", c.serve(ctx, o)
}

// validate checks objects against the API server's schemas. A kind that the cluster does not have is refused.
func (c *Cluster) validate(ctx context.Context, all []*object) error {
	var text strings.Builder
	for _, o := range all {
		if kinds[o.version+"/"+o.Kind] == "" {
			return fmt.Errorf("error: resource mapping not found for name: %q namespace: %q: no matches for kind %q in version %q\nensure CRDs are installed first",
				o.Name, o.Namespace, o.Kind, o.version)
		}
		if o.Name == "" {
			return fmt.Errorf("error: %s: resource name may not be empty", o.Kind)
		}
		if !strings.HasPrefix(o.version, withoutSchema) {
			text.WriteString("---\n" + o.text())
		}
	}
	dir, err := os.MkdirTemp(c.options.Dir, "validate-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "objects.yaml")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, c.options.Validate, "--version", kubernetes, file).CombinedOutput()
	if err != nil {
		return fmt.Errorf("error validating data: %w\n%s", err, out)
	}
	return nil
}

// build returns the objects of a folder with a kustomization.
func (c *Cluster) build(ctx context.Context, folder string) ([]byte, error) {
	var complaints strings.Builder
	run := exec.CommandContext(ctx, c.options.Kustomize, "build", folder)
	run.Stderr = &complaints
	text, err := run.Output()
	if err == nil && complaints.Len() > 0 {
		err = errors.New("it warns of something deprecated")
	}
	if err != nil {
		return nil, fmt.Errorf("error: kustomize build %s: %w\n%s", folder, err, complaints.String())
	}
	return text, nil
}

// remove deletes objects. Their pods end after their grace.
func (c *Cluster) remove(ids ...id) (err error) {
	for _, key := range ids {
		for _, p := range c.services[key] {
			err = errors.Join(err, p.close())
		}
		delete(c.services, key)
		delete(c.objects, key)
	}
	return err
}

// removeNamespace deletes a namespace with all that is in it, and waits for its pods.
func (c *Cluster) removeNamespace(ctx context.Context, name string) error {
	c.mu.Lock()
	var all []id
	for key := range c.objects {
		if key.Namespace == name {
			all = append(all, key)
		}
	}
	for _, p := range c.pods {
		if p.namespace == name {
			p.end()
		}
	}
	err := c.remove(append(all, id{"Namespace", "", name})...)
	c.mu.Unlock()
	if err != nil {
		return err
	}
	err = c.await(ctx, func() (bool, error) {
		for key, p := range c.pods {
			if p.namespace == name && p.gone() {
				delete(c.pods, key)
			}
		}
		return !slices.ContainsFunc(c.allPods(), func(p *pod) bool { return p.namespace == name }), nil
	})
	return errors.Join(err, os.RemoveAll(c.claims(name)))
}

// claims returns the folder of a namespace's volumes.
func (c *Cluster) claims(namespace string) string {
	return filepath.Join(c.options.Dir, "claims", namespace)
}

// put stores a Secret that a controller or `kubectl create secret` makes.
func (c *Cluster) put(namespace, name, kind string, data map[string]string) error {
	encoded := make(map[string]string, len(data))
	for key, value := range data {
		encoded[key] = base64Of(value)
	}
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": map[string]string{"name": name, "namespace": namespace}, "data": encoded,
	})
	if err != nil {
		return err
	}
	all, err := parse(text, namespace)
	if err != nil {
		return err
	}
	_, err = c.admit(c.running, all[0])
	return err
}

func base64Of(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func unbase64(text string) string {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return ""
	}
	return string(raw)
}

// certify makes the Secret of a Certificate once its issuer is there, as cert-manager does.
func (c *Cluster) certify(o *object) {
	var certificate struct {
		Spec struct {
			SecretName string                `yaml:"secretName"`
			IsCA       bool                  `yaml:"isCA"`
			DNSNames   []string              `yaml:"dnsNames"`
			IssuerRef  struct{ Name string } `yaml:"issuerRef"`
		}
	}
	o.read(&certificate)
	spec := certificate.Spec
	if _, made := c.data("Secret", o.Namespace, spec.SecretName); made || c.objects[id{"Issuer", o.Namespace, spec.IssuerRef.Name}] == nil {
		return
	}
	data := map[string]string{"ca.crt": c.authority.PEM}
	if !spec.IsCA {
		var err error
		if data["tls.crt"], data["tls.key"], err = c.authority.Issue(o.Name, spec.DNSNames...); err != nil {
			return
		}
	}
	_ = c.put(o.Namespace, spec.SecretName, "Opaque", data)
}

// deadline bounds every wait.
const deadline = 90 * time.Second
