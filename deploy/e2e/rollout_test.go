//go:build e2e

package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"switchyard.dev/deploy/dev/stack"
)

// slowStream is a vendor that streams for two seconds.
var slowStream = vendor{name: "slowly", dialect: "openai", model: "slowly"}

// releaseFile holds the tag of the previous release, or a commit where there is no tag yet. It is the only place.
const releaseFile = "../../.ci/release"

// programsBefore returns the folder of the previous release's programs, which are built once, after those of this tree.
var programsBefore = sync.OnceValues(func() (bin string, err error) {
	if _, err := programs(); err != nil {
		return "", err
	}
	tree, err := releaseTree()
	if err != nil {
		return "", err
	}
	if bin, err = inBuilds("bin-before"); err != nil {
		return "", err
	}
	if err := stack.Build(context.Background(), tree, bin); err != nil {
		return "", err
	}
	policy, err := os.ReadFile(filepath.Join(tree, policyInTree))
	if err == nil {
		err = os.WriteFile(filepath.Join(bin, releasePolicy), policy, 0o600)
	}
	return bin, errors.Join(err, forgetNewSettings(bin))
})

// releasePolicy is the previous release's policy file in the folder of its programs: operators keep theirs over an
// upgrade.
const releasePolicy = "policy.yaml"

// releaseTree returns the folder of the previous release's tree, which stays there for further runs.
func releaseTree() (string, error) {
	text, err := os.ReadFile(releaseFile)
	if err != nil {
		return "", err
	}
	commit, err := commitOf(strings.TrimSpace(string(text)))
	if err != nil {
		return "", err
	}
	cache, err := filepath.Abs("../../.cache")
	if err != nil {
		return "", err
	}
	tree := filepath.Join(cache, "release-"+commit)
	if _, err := os.Stat(tree); err == nil {
		return tree, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	fresh, err := os.MkdirTemp(cache, "unpacking-") // An interrupted run leaves nothing incomplete in tree.
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(fresh)
	if err := unpack(commit, fresh); err != nil {
		return "", err
	}
	if err := os.Rename(fresh, tree); err != nil && !errors.Is(err, fs.ErrExist) { // Another run may have been first.
		return "", err
	}
	return tree, nil
}

// commitOf returns the commit of a tag or of a commit's name.
func commitOf(revision string) (string, error) {
	var complaints bytes.Buffer
	parse := exec.Command("git", "-C", "../..", "rev-parse", "--verify", "--end-of-options", revision+"^{commit}")
	parse.Stderr = &complaints
	commit, err := parse.Output()
	if err != nil {
		return "", fmt.Errorf("the previous release %s: %w (this test needs a clone with history and tags)\n%s", revision, err, complaints.String())
	}
	return strings.TrimSpace(string(commit)), nil
}

// unpack extracts the tree of a commit from the git history.
func unpack(commit, folder string) error {
	archive := exec.Command("git", "-C", "../..", "archive", commit)
	extract := exec.Command("tar", "-x", "-C", folder)
	var complaints bytes.Buffer
	archive.Stderr, extract.Stderr = &complaints, &complaints
	var err error
	if extract.Stdin, err = archive.StdoutPipe(); err != nil {
		return err
	}
	if err := errors.Join(extract.Start(), archive.Run(), extract.Wait()); err != nil {
		return fmt.Errorf("the previous release: %w\n%s", err, complaints.String())
	}
	return nil
}

// withoutNewSettings is a script that starts a program of the previous release without the settings that came after it,
// as its own deployment would: a service refuses settings that it doesn't know.
const withoutNewSettings = `#!/bin/sh
unset $("$0.before" config 2>&1 | grep -o '[A-Z0-9_]*: unknown setting' | cut -d: -f1)
exec "$0.before" "$@"
`

func forgetNewSettings(bin string) error {
	for _, service := range stack.Services {
		path := filepath.Join(bin, string(service))
		err := os.Rename(path, path+".before")
		if err == nil {
			err = os.WriteFile(path, []byte(withoutNewSettings), 0o755)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// replaceProgram replaces a program by a link to the one of the same name in another folder: the file of a running
// program can't be overwritten.
func replaceProgram(t *testing.T, from, to, name string) {
	t.Helper()
	program := filepath.Join(to, name)
	if err := errors.Join(os.Remove(program), os.Symlink(filepath.Join(from, name), program)); err != nil {
		t.Fatal(err)
	}
}

// fleet is a stack with two replicas of every service, each pair behind a balancer.
type fleet struct {
	*harness

	edge      *balancer // in front of the edge, where the customers call
	balancers []*balancer
}

const replicas = 2

func startFleet(t *testing.T, bin string) fleet {
	t.Helper()
	of := map[stack.Service]*balancer{}
	count := map[stack.Service]int{stack.Control: stack.None} // The previous release has none, and customers need none.
	more := settings{}
	var f fleet
	for _, service := range stack.Services {
		of[service], count[service] = newBalancer(t), replicas
		f.balancers = append(f.balancers, of[service])
		prefix := strings.ToUpper(strings.ReplaceAll(string(service), "-", "_"))
		// Longer than the balancer takes to notice that a replica is not ready, on a busy machine too.
		more[service] = []string{prefix + "_DRAIN_DELAY=3s"}
	}
	more[stack.Edge] = append(more[stack.Edge], "EDGE_GATEWAY_URL="+of[stack.Gateway].url(),
		"EDGE_WEBHOOK_EGRESS_URL="+of[stack.WebhookEgress].url(), "EDGE_NOTIFY_URL="+of[stack.Notify].url())
	h := plan{name: "fleet", settings: more, replicas: count, vendors: []vendor{slowStream}, bin: bin, policy: filepath.Join(bin, releasePolicy)}.start(t)
	for service, b := range of {
		var addresses []string
		for n := 1; n <= replicas; n++ {
			addresses = append(addresses, strings.TrimPrefix(h.URL(member(service, n)), "http://"))
		}
		b.setReplicas(addresses...)
	}
	f.harness, f.edge = h, of[stack.Edge]
	return f
}

// traffic is the calls that customers make during the whole rollout.
type traffic struct {
	*loadGenerator

	fleet           fleet
	calls, failures atomic.Int64
	first           sync.Map // the first error of each kind of call
	mu              sync.Mutex
	deliveries      []string
}

// keepCalling starts n customers, each of which repeats one kind of call until the traffic stops.
func (tr *traffic) keepCalling(n int, kind string, call func() error) {
	tr.start(n, func(int) {
		tr.calls.Add(1)
		if err := call(); err != nil {
			tr.failures.Add(1)
			tr.first.LoadOrStore(kind, err)
		}
	})
}

func (tr *traffic) begin(t *testing.T, organization string, to receiver) {
	t.Helper()
	through := func(product, permission string) client {
		c := tr.fleet.customer(t, organization, product, permission)
		c.base = tr.fleet.edge.url()
		return c
	}
	expect := func(c client, route string, body object, status int) func() error {
		return func() error {
			a, err := c.try(t, http.MethodPost, route, body)
			if err == nil && a.status != status {
				err = fmt.Errorf("answered %d: %s", a.status, shorten(a.body))
			}
			return err
		}
	}
	ai, webhooks, notifications := through("ai", "read"), through("webhooks", "write"), through("notifications", "write")
	tr.keepCalling(2, "chat", expect(ai, chatRoute, ask("sandbox", "hello"), http.StatusOK))
	tr.keepCalling(2, "notification", expect(notifications, sendRoute,
		object{"channels": []string{"in_app"}, "message": "hello", "target": object{"user_id": "u"}}, http.StatusAccepted))
	tr.keepCalling(2, "delivery", func() error {
		a, err := webhooks.try(t, http.MethodPost, deliveryRoute, to.deliver())
		if err != nil || a.status != http.StatusAccepted {
			return errors.Join(fmt.Errorf("answered %d: %s", a.status, shorten(a.body)), err)
		}
		var got accepted
		if err := json.Unmarshal(a.body, &got); err != nil {
			return err
		}
		tr.mu.Lock()
		defer tr.mu.Unlock()
		tr.deliveries = append(tr.deliveries, got.ID)
		return nil
	})
	// A replica that gets SIGTERM has the time to finish its streams, so it must.
	tr.fleet.script(t, stack.FakeProvider, rule{Match: slowStream.match(), Action: object{
		"slow_body_ms": 50, "answer": object{"text": strings.Repeat("word ", 40)},
	}})
	tr.keepCalling(1, "stream", func() error {
		a, err := ai.try(t, http.MethodPost, chatRoute, ask(slowStream.model, "hello", streamed))
		if err == nil && (a.status != http.StatusOK || !bytes.HasSuffix(bytes.TrimSpace(a.body), []byte("data: [DONE]")) || bytes.Contains(a.body, []byte("event: error"))) {
			err = fmt.Errorf("answered %d: %s", a.status, a.body)
		}
		return err
	})
}

// Every replica of every service is replaced by one of the next release under traffic: first the schemas are migrated,
// then one process at a time is replaced. No call fails, no stream is cut, no delivery is lost.
func TestRollout(t *testing.T) {
	t.Parallel()
	stackTurns.take(t, root(t), true) // The build takes a turn, too.
	bin, err := programsBefore()
	if err != nil {
		t.Fatal(err)
	}
	next, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	replaceProgram(t, next, bin, stack.Fakes) // The fakes are those of this tree, because the stack starts them with their flags.
	f := startFleet(t, bin)
	organization, to := unique("org"), f.receiver()
	tr := &traffic{loadGenerator: newLoadGenerator(t), fleet: f}
	tr.begin(t, organization, to)

	for _, service := range stack.Services {
		replaceProgram(t, next, bin, string(service))
		if out, err := f.Command(t.Context(), service, "migrate").CombinedOutput(); err != nil {
			t.Fatalf("%s migrate: %v\n%s", service, err, out)
		}
	}
	for _, service := range stack.Services {
		for n := 1; n <= replicas; n++ {
			if err := errors.Join(f.Terminate(t.Context(), member(service, n)), f.Restart(t.Context(), member(service, n))); err != nil {
				t.Errorf("replace %s: %v", member(service, n), err)
			}
			f.settled(t)
		}
	}
	tr.stop()
	tr.check(t, organization, to)
}

// settled waits until every balancer sends to all its replicas: an orchestrator continues only then.
func (f fleet) settled(t *testing.T) {
	t.Helper()
	waitFor(t, waitTimeout, "all replicas ready", func() error {
		for _, b := range f.balancers {
			b.mu.Lock()
			ready := len(b.ready)
			b.mu.Unlock()
			if ready != replicas {
				return fmt.Errorf("%d of %d", ready, replicas)
			}
		}
		return nil
	})
}

func (tr *traffic) check(t *testing.T, organization string, to receiver) {
	t.Helper()
	tr.first.Range(func(kind, err any) bool {
		t.Errorf("%s: the first of its failures: %v", kind, err)
		return true
	})
	if failures := tr.failures.Load(); failures > 0 {
		t.Errorf("%d of %d calls failed", failures, tr.calls.Load())
	}
	for _, b := range tr.fleet.balancers {
		if refused := b.refused.Load(); refused > 0 {
			t.Errorf("%d connections found no ready replica", refused)
		}
	}
	if tr.calls.Load() < 100 || len(tr.deliveries) < 20 {
		t.Errorf("%d calls and %d deliveries, want 100 and 20 or more", tr.calls.Load(), len(tr.deliveries))
	}
	webhooks := tr.fleet.service(stack.WebhookEgress, organization)
	for _, id := range tr.deliveries {
		if d := ended(t, webhooks, id); d.Status != "delivered" {
			t.Errorf("record %+v", d)
		}
	}
	arrived := map[string]bool{}
	for _, a := range to.arrivals(t) {
		arrived[a.ID] = true
	}
	for _, id := range tr.deliveries {
		if !arrived[id] {
			t.Errorf("%s never arrived", id)
		}
	}
	t.Logf("%d calls, %d deliveries over %d replacements", tr.calls.Load(), len(tr.deliveries), replicas*len(stack.Services))
}
