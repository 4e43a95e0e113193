//go:build e2e

package e2e_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"switchyard.dev/deploy/dev/stack"
	"switchyard.dev/deploy/fakes/cert"
)

// language is an example in another language than Go.
type language struct {
	folder string   // in deploy/examples
	build  []string // the command after generation; empty for none
	run    []string
	env    []string
}

// The examples in other languages are generated from the archive of the contracts, and run against the real services
// by TLS.
func TestExamplesInOtherLanguages(t *testing.T) {
	t.Parallel()
	h := use(t)
	compiler, others := toolOf(t, "../../.bin/buf-v*"), toolOf(t, "../../.cache/proto")
	for name, of := range map[string]func(*testing.T) language{"python": python, "typescript": typeScript} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := of(t)
			programTurns.take(t, t.Name(), false)
			home := t.TempDir()
			for _, folder := range []string{l.folder, "client"} {
				copyFiles(t, filepath.Join(home, folder), "../examples/"+folder)
			}
			folder := filepath.Join(home, l.folder)
			command(t, "..", "go", "run", "./protos", filepath.Join(home, "protos.tar.gz"), "../proto", others)
			command(t, home, "tar", "-xzf", "protos.tar.gz")
			command(t, folder, compiler, "generate", "../switchyard-protos", "--template", "buf.gen.yaml")
			if len(l.build) > 0 {
				command(t, folder, l.build...)
			}
			authority := filepath.Join(home, "ca.pem")
			env := append(h.byTLS(t, authority), l.env...)
			said := clientRun{l.run[0], l.run[1:], folder, append(env,
				"GRPC_CA_FILE="+authority, "SERVICE_TOKEN="+h.Secrets().Service, "ORGANIZATION_ID="+unique("org"),
				"WEBHOOK_TARGET="+h.FakeURL(stack.FakeWebhook)+"/"+name,
			)}.run(t)
			for _, want := range []string{
				"answered for", "delivered after 1 attempt(s), status 200", "sent by in_app",
				"INVALID_ARGUMENT invalid_request, retryable: false: messages[0].content: must not be set together with text or parts",
			} {
				if !strings.Contains(strings.ReplaceAll(said, "False", "false"), want) {
					t.Errorf("%q is missing in:\n%s", want, said)
				}
			}
		})
	}
}

// python returns the example in Python. Its packages are those of grpcio, or of Debian.
func python(t *testing.T) language {
	t.Helper()
	for _, program := range []string{"protoc", "grpc_python_plugin"} {
		if _, err := exec.LookPath(program); err != nil {
			lacks(t, program)
		}
	}
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(t.Context(), python, "-c", "import grpc, google.protobuf").Run() == nil {
			return language{folder: "python", run: []string{python, "main.py"}, env: []string{"PYTHONPATH=gen"}}
		}
	}
	lacks(t, "grpcio for Python")
	return language{}
}

// typeScript returns the example in TypeScript, which `npm ci --ignore-scripts` has given its packages.
func typeScript(t *testing.T) language {
	t.Helper()
	toolOf(t, "../examples/typescript/node_modules/.bin/tsc")
	return language{folder: "typescript", build: []string{"node_modules/.bin/tsc"}, run: []string{"node", "out/main.js"}}
}

// copyFiles copies the files of a folder, and links its installed packages.
func copyFiles(t *testing.T, to, from string) {
	t.Helper()
	if err := os.Mkdir(to, 0o700); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		switch {
		case entry.Name() == "node_modules":
			err = os.Symlink(toolOf(t, filepath.Join(from, entry.Name())), filepath.Join(to, entry.Name()))
		case entry.Type().IsRegular():
			var text []byte
			if text, err = os.ReadFile(filepath.Join(from, entry.Name())); err == nil {
				err = os.WriteFile(filepath.Join(to, entry.Name()), text, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// toolOf returns the absolute path of the one file of a pattern, and skips the test without it.
func toolOf(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		lacks(t, pattern)
	}
	path, err := filepath.Abs(found[0])
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// lacks skips a test whose language is not at hand. In CI it must be.
func lacks(t *testing.T, what string) {
	t.Helper()
	const how = "; .ci/run installs what the examples in other languages need, `make third-party` the protos of others"
	if os.Getenv("CI") == "true" {
		t.Fatal("no " + what + how)
	}
	t.Skip("no " + what + how)
}

// command runs a command in a folder, and fails the test if it fails.
func command(t *testing.T, folder string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clientTimeout)
	defer cancel()
	run := exec.CommandContext(ctx, args[0], args[1:]...)
	run.Dir, run.WaitDelay = folder, time.Second
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%q: %v\n%s", args, err, out)
	}
}

// byTLS opens a TLS listener before each gRPC face, and returns their addresses as the examples know them. It writes
// the certificate to trust to a file.
func (h *harness) byTLS(t *testing.T, authority string) (env []string) {
	t.Helper()
	own, text, err := cert.New(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(authority, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, service := range map[string]stack.Service{
		"GATEWAY_GRPC": stack.Gateway, "WEBHOOK_EGRESS_GRPC": stack.WebhookEgress, "NOTIFY_GRPC": stack.Notify,
	} {
		env = append(env, name+"="+relayTLS(t, own, h.GRPC(string(service))))
	}
	return env
}

// relayTLS ends TLS and relays what is in it to a server, until the test ends. It returns its address.
func relayTLS(t *testing.T, own tls.Certificate, server string) string {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{own}, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12,
	})
	if err != nil {
		t.Fatal(err)
	}
	var relays sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(func() {
		stop()
		_ = listener.Close()
		relays.Wait()
	})
	relays.Go(func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			relays.Go(func() { relayConnection(ctx, from, server) })
		}
	})
	return listener.Addr().String()
}

// relayConnection relays a connection to a server until either side ends or ctx does.
func relayConnection(ctx context.Context, from net.Conn, server string) {
	defer func() { _ = from.Close() }()
	to, err := new(net.Dialer).DialContext(ctx, "tcp", server)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	unhook := context.AfterFunc(ctx, func() {
		_ = from.Close()
		_ = to.Close()
	})
	defer unhook()
	var there sync.WaitGroup
	there.Go(func() {
		_, _ = io.Copy(to, from)
		_ = to.Close()
	})
	_, _ = io.Copy(from, to)
	_ = from.Close()
	there.Wait()
}
