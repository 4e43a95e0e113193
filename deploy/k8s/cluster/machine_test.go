//go:build k8s

package cluster

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/deploy/dev/devtest"
	"switchyard.dev/deploy/dev/port"
	"switchyard.dev/deploy/dev/stack"
	"switchyard.dev/deploy/dev/store"
)

const (
	registry = "registry.acme.example/switchyard"
	host     = "ai.acme.example"

	vendorKey = "sk-of-the-vendor"
)

// versions are those of the page: both are the same programs here.
var versions = []string{"v0.1.0", "v0.2.0"}

// root is the repository's root.
var root = sync.OnceValue(func() string {
	path, err := filepath.Abs("../../..")
	if err != nil {
		panic(err) // There is no working directory.
	}
	return path
})

// programs returns the folder of the programs, which are built once.
func programs(t *testing.T) string {
	t.Helper()
	bin, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

var built = sync.OnceValues(func() (string, error) {
	bin, err := os.MkdirTemp("", "switchyard-walk-bin-")
	if err != nil {
		return "", err
	}
	builtIn.Store(&bin)
	return bin, stack.Build(context.Background(), root(), bin)
})

// builtIn is the folder that TestMain removes.
var builtIn atomic.Pointer[string]

// start returns an empty cluster that can pull the services' images from the page's registry.
func start(t *testing.T, bin string) *Cluster {
	t.Helper()
	images := make(map[string]string)
	for _, service := range stack.Services {
		for _, version := range versions {
			images[registry+"/"+string(service)+":"+version] = filepath.Join(bin, string(service))
		}
	}
	c, err := Start(t.Context(), Options{
		Dir: t.TempDir(), Images: images, StorageClasses: []string{"fast"}, IngressClass: "nginx",
		Kustomize: devtest.Tool(t, "KUSTOMIZE"), Validate: devtest.Tool(t, "KUBECTL_VALIDATE"), Helm: devtest.Tool(t, "HELM"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// stores returns the URLs of a Postgres, for an administrator, and of a Redis.
func stores(t *testing.T) (database, redis string) {
	t.Helper()
	dir, err := store.Temporary()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	stores, err := store.Start(t.Context(), store.Options{Dir: dir, Cache: filepath.Join(root(), ".local", "cache")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { devtest.Stop(t, time.Minute, stores.Stop) })
	return stores.DatabaseURL, stores.RedisURL
}

// gitHere stands in for git, as there is no repository to clone from: the tree that is tested takes its place.
const gitHere = `#!/bin/bash
case "$*" in
  "clone --quiet --branch v0.1.0 "*" switchyard") ln -s "$TREE" switchyard ;;
  "-C switchyard fetch --quiet --tags" | "-C switchyard checkout --quiet v0.2.0") [ -d switchyard ] ;;
  *) echo "git: this machine has no git $*" >&2; exit 1 ;;
esac
`

// machine makes a home of its own for the page's commands, and returns its environment: with programs that stand in for
// what the machine lacks, Go's caches, and a curl that finds the ingress and trusts its certificate.
func machine(t *testing.T, c *Cluster) (home string, env []string) {
	t.Helper()
	home = t.TempDir()
	programs := filepath.Join(home, "programs")
	authority, err := stack.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	certificate, key, err := authority.Issue("ingress", host)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"programs/git": gitHere, "tls.crt": certificate, "tls.key": key, "ca.pem": authority.PEM, "openai.key": vendorKey,
		".curlrc": "connect-to = \"" + host + ":443:" + c.Ingress() + "\"\ncacert = \"" + filepath.Join(home, "ca.pem") + "\"\n",
	} {
		if err := writeFile(filepath.Join(home, name), text); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(programs, "git"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := c.Install(t.Context(), programs); err != nil {
		t.Fatal(err)
	}
	caches, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	folders := strings.Fields(string(caches))
	return home, []string{
		"PATH=" + programs + ":" + os.Getenv("PATH"), "HOME=" + home, "TREE=" + root(),
		"GOCACHE=" + folders[0], "GOMODCACHE=" + folders[1], "GOFLAGS=" + goFlags,
	}
}

// goFlags are those of the Makefile, so that the page's build finds what is compiled; git can't be asked for the commit.
const goFlags = "-pgo=off -trimpath -buildvcs=false"

// values returns the page's variables for this machine.
func values(t *testing.T) []string {
	t.Helper()
	database, redis := stores(t)
	ports, err := port.Free(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	scheme, rest, _ := strings.Cut(database, "://")
	_, address, _ := strings.Cut(rest, "@")
	return []string{
		"DATABASE=" + scheme + "://" + address, "REDIS=" + redis, "SWITCHYARD_DATABASE_URL=" + database,
		"CONTROL_PORT=" + strconv.Itoa(ports[0]), "GATEWAY_PORT=" + strconv.Itoa(ports[1]),
	}
}
