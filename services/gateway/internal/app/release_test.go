package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/migrations"
	"switchyard.dev/services/platform/testkit"
)

// releaseStore is the releases in memory.
type releaseStore struct {
	hash  string
	level int64
	err   error
}

func (b *releaseStore) Release(_ context.Context, _, now policy.Version) error {
	if b.err == nil {
		b.hash, b.level = now.Hash, b.level+1
	}
	return b.err
}

func (b *releaseStore) Released(context.Context) (string, int64, error) {
	return b.hash, b.level, b.err
}

// A replica follows a release with its own files: invalid ones change nothing and are reported, and files that arrive
// later are put in force when they arrive.
func TestFollowingARelease(t *testing.T) {
	dir, log := folder(t.TempDir()), &bytes.Buffer{}
	policy := func(name, text string) Config {
		return Config{PolicyFile: dir.write(t, name, text)}
	}
	shared := &releaseStore{}
	asked, other := newFleets(t, policy("asked.yaml", smallPolicy), log), newFleets(t, policy("other.yaml", smallPolicy), log)
	asked.releases, other.releases = shared, shared
	follow := func() {
		t.Helper()
		if _, err := other.follow(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	stands := func(when, problem string, together bool) {
		t.Helper()
		version, got := other.inForce()
		if own, none := asked.inForce(); got != problem || none != "" || (version == own) != together {
			t.Errorf("%s: %q, %q on the replica that was asked; together: %v", when, got, none, version == own)
		}
	}
	shared.hash = "of a release before it started"
	follow()
	stands("at the start", "", true)

	second, third := smallPolicy+"budget: {unpriced: allow}\n", smallPolicy+"default_goal: cost\n"
	release := func(text string) {
		t.Helper()
		dir.write(t, "asked.yaml", text)
		if _, err := asked.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		follow()
	}
	dir.write(t, "other.yaml", "\tbad")
	release(second)
	stands("bad files", policyRefused, false)
	dir.write(t, "other.yaml", smallPolicy)
	other.catchUp(t.Context())
	stands("files of before", policyRefused, false)
	dir.write(t, "other.yaml", second)
	other.catchUp(t.Context())
	stands("the files released", "", true)
	release(third)
	stands("files that are late", policyDiffers, false)
	dir.write(t, "other.yaml", third)
	other.catchUp(t.Context())
	stands("files that came late", "", true)

	// No version is put in force that can't be released.
	shared.err = errors.New("away")
	dir.write(t, "asked.yaml", smallPolicy)
	if _, err := asked.Reload(t.Context()); !errors.Is(err, shared.err) {
		t.Errorf("%v", err)
	}
	stands("the store away", "", true)
	if n := strings.Count(log.String(), "policy not reloaded"); n != 1 {
		t.Errorf("%d refusals in the log: %s", n, log.String())
	}
}

// A reload on one replica takes effect on the other within a second; if the other can't follow, both report it.
func TestReloadReachesEveryReplica(t *testing.T) {
	url, dir := testkit.PostgresURL(t, migrations.FS), folder(t.TempDir())
	names := []string{"first.yaml", "second.yaml"}
	bases := make([]string, len(names))
	for i, name := range names {
		cfg := settings(t, url)
		cfg.PolicyFile = dir.write(t, name, smallPolicy)
		base, stop := serve(t, cfg)
		defer stop()
		bases[i] = base
	}
	const request = `{"model":"sandbox-fresh","messages":[{"role":"user","content":"hi"}]}`
	serves := func(base string, want int) func() error {
		return func() error {
			status, text, err := post(t.Context(), base+"/v1/llm/chat", request)
			if err == nil && status != want {
				err = fmt.Errorf("%d: %s", status, text)
			}
			return err
		}
	}
	reload := func(want int) {
		t.Helper()
		if status, text, err := post(t.Context(), bases[0]+"/v1/admin/reload-policy", "{}"); err != nil || status != want {
			t.Fatalf("%d %s, %v", status, text, err)
		}
	}
	fresh := strings.Replace(smallPolicy, "models: [", "models: [sandbox-fresh, ", 1)
	for _, name := range names {
		dir.write(t, name, fresh)
	}
	reload(http.StatusOK)
	testkit.Wait(t, "the other replica has the model", serves(bases[1], http.StatusOK))

	// A policy that the replica asked to reload refuses reaches no replica.
	dir.write(t, names[0], "\tbad")
	dir.write(t, names[1], smallPolicy)
	reload(http.StatusUnprocessableEntity)
	for _, base := range bases {
		if err := serves(base, http.StatusOK)(); err != nil {
			t.Error(err)
		}
	}

	// What another replica refuses is visible on both.
	dir.write(t, names[0], smallPolicy)
	dir.write(t, names[1], "\tbad")
	reload(http.StatusOK)
	if err := serves(bases[0], http.StatusNotFound)(); err != nil {
		t.Error(err)
	}
	for _, base := range bases {
		testkit.Wait(t, "both report it", func() error { return policies(t, base, 2, policyRefused) })
	}
	if err := serves(bases[1], http.StatusOK)(); err != nil {
		t.Errorf("a replica whose files are bad: %v", err)
	}
	dir.write(t, names[1], smallPolicy)
	testkit.Wait(t, "it follows when its files are good", serves(bases[1], http.StatusNotFound))
	for _, base := range bases {
		testkit.Wait(t, "all is well", func() error { return policies(t, base, 1, "") })
	}
}

// policies checks how many versions a replica reports in force, and its problem.
func policies(t *testing.T, base string, versions int, problem string) error {
	t.Helper()
	var fleet struct {
		Replicas []struct {
			Policy   string   `json:"policy_version"`
			Problems []string `json:"problems"`
		} `json:"replicas"`
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/v1/fleet/status", http.NoBody)
	if err != nil {
		return err
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, json.Unmarshal(text, &fleet)); err != nil {
		return err
	}
	seen, reported := make(map[string]bool), problem == ""
	for _, r := range fleet.Replicas {
		seen[r.Policy] = true
		reported = reported && len(r.Problems) == 0 || problem != "" && (reported || slices.Contains(r.Problems, problem))
	}
	if len(fleet.Replicas) != 2 || len(seen) != versions || !reported {
		return errors.New(string(text))
	}
	return nil
}
