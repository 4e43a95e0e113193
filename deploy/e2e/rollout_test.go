//go:build e2e

package e2e_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
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

// slowly streams for two seconds.
var slowly = addVendor(vendor{name: "slowly", dialect: "openai", model: "slowly"})

// releaseFile names the commit of the release before this one.
const releaseFile = "../../.ci/release"

// programsBefore are those of the release before, built once, after those of this tree.
// A run of all tests builds them while the first tests wait.
var programsBefore = sync.OnceValues(func() (bin string, err error) {
	if _, err := programs(); err != nil {
		return "", err
	}
	tree, err := os.MkdirTemp("", "switchyard-e2e-before-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tree)
	if bin, err = os.MkdirTemp("", "switchyard-e2e-bin-"); err != nil {
		return "", err
	}
	built = append(built, bin)
	if err := unpackRelease(tree); err != nil {
		return "", err
	}
	return bin, errors.Join(build(tree, bin), forgetNewSettings(bin))
})

// unpackRelease takes the tree of the release before from the history.
func unpackRelease(tree string) error {
	commit, err := os.ReadFile(releaseFile)
	if err != nil {
		return err
	}
	archive := exec.Command("git", "-C", "../..", "archive", strings.TrimSpace(string(commit)))
	unpack := exec.Command("tar", "-x", "-C", tree)
	var complaints bytes.Buffer
	archive.Stderr, unpack.Stderr = &complaints, &complaints
	if unpack.Stdin, err = archive.StdoutPipe(); err != nil {
		return err
	}
	if err := errors.Join(unpack.Start(), archive.Run(), unpack.Wait()); err != nil {
		return fmt.Errorf("the release before: %w (a clone without history can't run this test)\n%s", err, complaints.String())
	}
	return nil
}

// withoutNewSettings starts the release before as its own deployment would, which
// does not have the settings that came after it: a service refuses what it doesn't know.
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

// replaceProgram gives a program's name to that of another folder: a program that
// runs can't be overwritten.
func replaceProgram(t *testing.T, from, to, name string) {
	t.Helper()
	program := filepath.Join(to, name)
	if err := errors.Join(os.Remove(program), os.Symlink(filepath.Join(from, name), program)); err != nil {
		t.Fatal(err)
	}
}

// fleet is two replicas of every service, each pair behind a balancer.
type fleet struct {
	*harness

	door      *balancer // of the edge
	balancers []*balancer
}

const replicas = 2

func startFleet(t *testing.T, bin string) fleet {
	t.Helper()
	of := map[stack.Service]*balancer{}
	count := map[stack.Service]int{}
	more := settings{}
	var f fleet
	for _, service := range stack.Services {
		of[service], count[service] = newBalancer(t), replicas
		f.balancers = append(f.balancers, of[service])
		prefix := strings.ToUpper(strings.ReplaceAll(string(service), "-", "_"))
		// Longer than the balancer takes to notice.
		more[service] = []string{prefix + "_DRAIN_DELAY=1s"}
	}
	more[stack.Edge] = append(more[stack.Edge], "EDGE_GATEWAY_URL="+of[stack.Gateway].url(),
		"EDGE_WEBHOOK_EGRESS_URL="+of[stack.WebhookEgress].url(), "EDGE_NOTIFY_URL="+of[stack.Notify].url())
	h := plan{name: "fleet", settings: more, replicas: count, bin: bin}.start(t)
	for service, b := range of {
		var addresses []string
		for n := 1; n <= replicas; n++ {
			addresses = append(addresses, strings.TrimPrefix(h.URL(member(service, n)), "http://"))
		}
		b.before(addresses...)
	}
	f.harness, f.door = h, of[stack.Edge]
	return f
}

// traffic is what customers do all the while.
type traffic struct {
	*loadGenerator

	fleet           fleet
	calls, failures atomic.Int64
	first           sync.Map // the first failure of each kind
	mu              sync.Mutex
	deliveries      []string
}

// keepCalling has n customers make one kind of call until the traffic stops.
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
		c.base = tr.fleet.door.url()
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
	// A stream that runs when its replica is told to stop can be finished, and so must be.
	tr.fleet.script(t, stack.FakeProvider, rule{Match: slowly.match(), Action: object{
		"slow_body_ms": 50, "answer": object{"text": strings.Repeat("word ", 40)},
	}})
	tr.keepCalling(1, "stream", func() error {
		a, err := ai.try(t, http.MethodPost, chatRoute, ask(slowly.model, "hello", streamed))
		if err == nil && (a.status != http.StatusOK || !bytes.HasSuffix(bytes.TrimSpace(a.body), []byte("data: [DONE]")) || bytes.Contains(a.body, []byte("event: error"))) {
			err = fmt.Errorf("answered %d: %s", a.status, a.body)
		}
		return err
	})
}

// Every replica of every service is replaced by the next release's under
// traffic: the schemas first, then one process at a time. No call fails, no
// stream is cut, no delivery is lost.
func TestRollout(t *testing.T) {
	use(t)
	bin, err := programsBefore()
	if err != nil {
		t.Fatal(err)
	}
	next, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	replaceProgram(t, next, bin, stack.Fakes) // The third parties are of today: the stack asks for what they know.
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
				t.Errorf("%s: %v", member(service, n), err)
			}
			f.settled(t)
		}
	}
	tr.stop()
	tr.judge(t, organization, to)
}

// settled waits until every balancer sends to all its replicas: an orchestrator
// goes on only then.
func (f fleet) settled(t *testing.T) {
	t.Helper()
	waitFor(t, patience, "all replicas ready", func() error {
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

func (tr *traffic) judge(t *testing.T, organization string, to receiver) {
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
			t.Errorf("%d connections found nobody ready", refused)
		}
	}
	if tr.calls.Load() < 100 || len(tr.deliveries) < 20 {
		t.Errorf("%d calls and %d deliveries are no traffic", tr.calls.Load(), len(tr.deliveries))
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
