package stack

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Cluster is what the Secrets of a cluster are made from: its stores, and the files of others' keys.
type Cluster struct {
	// Namespace is that of the Secrets; empty for switchyard.
	Namespace string `yaml:"namespace"`
	// Database is the URL of Postgres as pods reach it, with the database and its parameters, and without a user. Redis is
	// that of Redis, with its user and password.
	Database string `yaml:"database"`
	Redis    string `yaml:"redis"`
	// ProviderKeys are files of vendors' keys by the name that the policy has for them, such as openai.key. WebhookSecrets
	// are files of signing secrets by organization.
	ProviderKeys   map[string]string `yaml:"provider_keys"`
	WebhookSecrets map[string]string `yaml:"webhook_secrets"`
	// ServiceTokens are names of the company's own services, for each of which a token is made up.
	ServiceTokens []string `yaml:"service_tokens"`
	// Secrets are files of further keys of any Secret that the manifests mount, such as smtp-password of notify.
	Secrets map[string]map[string]string `yaml:"secrets"`
}

// ReadCluster reads a Cluster from a YAML file. The files that it names are beside it, unless their paths are absolute.
func ReadCluster(path string) (Cluster, error) {
	text, err := readFile(path)
	if err != nil {
		return Cluster{}, err
	}
	var c Cluster
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&c); err != nil {
		return Cluster{}, fmt.Errorf("%s: %w", path, err)
	}
	c.Namespace = cmp.Or(c.Namespace, "switchyard")
	for _, files := range c.files() {
		for name, file := range files {
			if !filepath.IsAbs(file) {
				files[name] = filepath.Join(filepath.Dir(path), file)
			}
		}
	}
	if err := c.validate(); err != nil {
		return Cluster{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// files returns all files by key, by the field that names them.
func (c Cluster) files() map[string]map[string]string {
	all := map[string]map[string]string{"provider_keys": c.ProviderKeys, "webhook_secrets": c.WebhookSecrets}
	for name, files := range c.Secrets {
		all["secrets."+name] = files
	}
	return all
}

func (c Cluster) validate() error {
	var errs []error
	if database, err := url.Parse(c.Database); err != nil || database.Scheme != "postgres" || database.Host == "" || database.User != nil || len(database.Path) < 2 {
		errs = append(errs, errors.New("database: want postgres://host:port/database?sslmode=…, without a user"))
	}
	if redis, err := url.Parse(c.Redis); err != nil || redis.Scheme != "redis" && redis.Scheme != "rediss" || redis.Host == "" {
		errs = append(errs, errors.New("redis: want redis://host:port or rediss://user:password@host:port"))
	}
	taken := map[string]bool{}
	for _, t := range clusterTokens {
		taken[t.name] = true
	}
	for i, name := range c.ServiceTokens {
		if !serviceName.MatchString(name) || taken[name] {
			errs = append(errs, fmt.Errorf("service_tokens[%d]: want a name of lower case letters, digits and hyphens that no other token has", i))
		}
		taken[name] = true
	}
	for _, field := range slices.Sorted(maps.Keys(c.files())) {
		for _, key := range slices.Sorted(maps.Keys(c.files()[field])) {
			if !secretKey.MatchString(key) {
				errs = append(errs, fmt.Errorf("%s: a key has letters, digits, hyphens, underscores and dots only, 253 at most", field))
			}
		}
	}
	return errors.Join(errs...)
}

// secretKey is what a key of a Secret may be named.
var secretKey = regexp.MustCompile(`^[-._a-zA-Z0-9]{1,253}$`)

// serviceName is what a token of the company's own services may be named.
var serviceName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)

// SetupCluster creates the role and schema of each service on the database of the administrator's URL, and writes the
// cluster's Secrets, see WriteSecrets. It changes nothing if these can't be made.
func SetupCluster(ctx context.Context, dir, administrator string, c Cluster, out io.Writer) error {
	v, err := openVault(dir)
	if err != nil {
		return fmt.Errorf("make the folder of the secrets: %w", err)
	}
	if err := v.refuseForeign(ctx, administrator); err != nil {
		return err
	}
	secrets, err := c.secrets(v)
	if err != nil {
		return err
	}
	if err := v.provision(ctx, administrator, c.Redis); err != nil {
		return err
	}
	return write(secrets, out)
}

// WriteSecrets writes the cluster's Secrets as YAML. What it makes up is kept in dir, so that a second run writes the same.
func (c Cluster) WriteSecrets(dir string, out io.Writer) error {
	v, err := openVault(dir)
	if err != nil {
		return fmt.Errorf("make the folder of the secrets: %w", err)
	}
	secrets, err := c.secrets(v)
	if err != nil {
		return err
	}
	return write(secrets, out)
}

func write(secrets []manifest, out io.Writer) error {
	encoder := yaml.NewEncoder(out)
	encoder.SetIndent(2)
	for _, s := range secrets {
		if err := encoder.Encode(s); err != nil {
			return fmt.Errorf("write the secret %s: %w", s.Metadata["name"], err)
		}
	}
	return encoder.Close()
}

// manifest is a Secret as the API server takes it.
type manifest struct {
	APIVersion string            `yaml:"apiVersion"`
	Kind       string            `yaml:"kind"`
	Metadata   map[string]string `yaml:"metadata"`
	Type       string            `yaml:"type"`
	Data       map[string]string `yaml:"stringData"`
}

// secrets returns the Secrets that the manifests of deploy/k8s mount, with the keys that their settings name.
func (c Cluster) secrets(v vault) ([]manifest, error) {
	k := clusterVault{vault: v}
	tokens := k.tokens(c.ServiceTokens)
	stores := func(s Service, more map[string]string) map[string]string {
		data := map[string]string{"database-url": c.databaseURL(s, k.kept(databasePassword(s), newToken)), "redis-url": c.Redis}
		maps.Copy(data, more)
		return data
	}
	all := map[string]map[string]string{
		"gateway": stores(Gateway, map[string]string{
			"tokens.yaml": tokens, "fingerprint-key": k.kept(gatewayKey, newKey), "webhook-egress-token": k.kept(gatewayToken, newToken),
		}),
		"gateway-sealing-keys": {"first.key": k.kept(filepath.Join(gatewaySealing, "first.key"), newSealingKey)},
		"gateway-trace-keys":   {"keys": k.kept(gatewayTraces, newToken)},
		"gateway-cache-key":    {"key": k.kept(gatewayCache, newToken)},
		"gateway-fleet-keys":   k.files("provider_keys", c.ProviderKeys),
		"webhook-egress":       stores(WebhookEgress, map[string]string{"tokens.yaml": tokens, "encryption-key": k.kept(webhookKey, newKey)}),
		"webhook-signing-keys": {"keys": k.kept(webhookSigning, newEd25519Key)},
		"notify": stores(Notify, map[string]string{
			"tokens.yaml": tokens, "encryption-key": k.kept(notifyKey, newKey), "webhook-egress-token": k.kept(notifyToken, newToken),
		}),
		"edge": stores(Edge, map[string]string{
			"tokens.yaml": tokens, "service-token": k.kept(edgeToken, newToken), "control-token": k.kept(controlToken, newToken), "key-pepper": k.kept(edgePepper, newToken),
		}),
		"webhook-organization-secrets": k.files("webhook_secrets", c.WebhookSecrets),
		// Of organizations; whatever they have is among the further keys.
		"gateway-byok-secrets": {}, "notify-slack-tokens": {}, "notify-slack-webhooks": {},
	}
	for _, name := range slices.Sorted(maps.Keys(c.Secrets)) {
		if err := add(all, name, k.files("secrets."+name, c.Secrets[name])); err != nil {
			return nil, err
		}
	}
	var list []manifest
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if len(all[name]) > 0 {
			list = append(list, manifest{"v1", "Secret", map[string]string{"name": name, "namespace": c.Namespace}, "Opaque", all[name]})
		}
	}
	return list, k.err
}

// add adds further keys to a Secret.
func add(all map[string]map[string]string, name string, further map[string]string) error {
	secret, mounted := all[name]
	if !mounted {
		return fmt.Errorf("secrets.%s: want one that pods mount: %s", name, strings.Join(slices.Sorted(maps.Keys(all)), ", "))
	}
	for key, text := range further {
		if _, taken := secret[key]; taken {
			return fmt.Errorf("secrets.%s.%s: setup makes this key itself", name, key)
		}
		secret[key] = text
	}
	return nil
}

// databaseURL returns the URL of a service's role for pods.
func (c Cluster) databaseURL(s Service, password string) string {
	address, err := url.Parse(c.Database)
	if err != nil {
		return "" // It was checked.
	}
	address.User = url.UserPassword(s.schema(), password)
	return address.String()
}

// clusterVault keeps the secrets of a cluster, and the first error.
type clusterVault struct {
	vault

	err error
}

// kept returns a secret, made up at the first run.
func (k *clusterVault) kept(name string, fresh func() string) string {
	text, err := k.once(name, fresh)
	if k.err == nil {
		k.err = err
	}
	return text
}

// clusterTokens are the tokens of every cluster: of the services, of operators, and one of the company's own services.
var clusterTokens = []struct{ name, role, file string }{
	{"operator", "operator", operatorToken},
	{"support", "support", supportToken},
	{"service", "service", serviceToken},
	{"control", "operator", controlToken},
	{"edge", "service", edgeToken},
	{"gateway", "service", gatewayToken},
	{"notify", "service", notifyToken},
}

// tokens returns the services' file of the tokens, with those of further services of the company's own.
func (k *clusterVault) tokens(further []string) string {
	tokens := make([]token, 0, len(clusterTokens)+len(further))
	for _, t := range clusterTokens {
		tokens = append(tokens, token{t.name, t.role, k.kept(t.file, newToken)})
	}
	for _, name := range further {
		tokens = append(tokens, token{name, "service", k.kept(filepath.Join(serviceTokens, name), newToken)})
	}
	return tokensYAML(tokens)
}

// files returns the contents of files by name.
func (k *clusterVault) files(setting string, files map[string]string) map[string]string {
	data := make(map[string]string, len(files))
	for name, path := range files {
		text, err := readFile(path)
		if err != nil && k.err == nil {
			k.err = fmt.Errorf("%s.%s: %w", setting, name, err)
		}
		data[name] = strings.TrimSpace(string(text))
	}
	return data
}

// maxFile bounds a file in bytes: the API server takes a Secret of 1 MiB.
const maxFile = 1 << 20

// readFile reads a file up to the bound.
func readFile(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s: larger than %d bytes", path, maxFile)
	}
	return text, err
}
