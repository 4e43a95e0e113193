//go:build e2e

package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/deploy/dev/stack"
	"switchyard.dev/deploy/dev/store"
)

// edgeBody is the maximum size of a body, in bytes, in the stack with two edges.
const edgeBody = 1 << 20

// both returns clients of both replicas of the edge that present a key.
func (h *harness) both(key string) []client {
	return []client{h.anonymous(stack.Edge).bearer(key), h.anonymous(secondEdge).bearer(key)}
}

// keyByOperator makes an operator's call that returns a key.
func (h *harness) keyByOperator(t *testing.T, method, path string, body any, status int) (k productKey) {
	t.Helper()
	h.operator(stack.Edge).unrecorded(t, method, path, body).into(t, status, &k)
	if k.Key != "" {
		knownSecrets.add("the product key "+k.ID, k.Key)
	}
	return k
}

// awaitRefusal waits until every replica refuses calls with a status. Each replica learns by itself of what the others
// serve and of what is changed.
func awaitRefusal(t *testing.T, within time.Duration, replicas []client, status int) {
	t.Helper()
	for i, replica := range replicas {
		waitFor(t, within, "the refusal of calls", func() error {
			if a := replica.post(t, chatRoute, ask("sandbox", "hello")); a.status != status {
				return fmt.Errorf("replica %d: status %d, want %d", i, a.status, status)
			}
			return nil
		})
	}
}

// A key is rotated while customers call: during the overlap not one call fails, after it both replicas refuse the old
// key.
func TestEdgeRotationUnderLoad(t *testing.T) {
	const overlap = 6 * time.Second
	h := pairOfEdges(t)
	old := h.key(t, unique("org"), "ai", "read")
	var current atomic.Pointer[string]
	current.Store(&old.Key)
	var served, failed atomic.Int64
	customers := newLoadGenerator(t)
	customers.start(4, func(caller int) {
		a, err := h.both(*current.Load())[caller%2].try(t, http.MethodPost, chatRoute, ask("sandbox", "hello"))
		if err != nil || a.status != http.StatusOK {
			failed.Add(1)
			t.Errorf("status %d, %v: %s", a.status, err, shorten(a.body))
		}
		served.Add(1)
	})
	enough := func(n int64) {
		t.Helper()
		until := served.Load() + n
		waitFor(t, waitTimeout, "calls", func() error {
			if served.Load() < until && failed.Load() == 0 {
				return fmt.Errorf("%d of %d", served.Load(), until)
			}
			return nil
		})
	}
	enough(20)
	rotated := time.Now()
	next := h.keyByOperator(t, http.MethodPost, "/admin/v1/keys/"+old.ID+"/rotate", object{"overlap_seconds": overlap / time.Second}, http.StatusCreated)
	enough(40) // with the old key
	current.Store(&next.Key)
	enough(40)
	customers.stop()
	if took := time.Since(rotated); took > overlap {
		t.Errorf("the calls took %s, want less than the overlap of %s", took, overlap)
	}
	awaitRefusal(t, overlap+2*time.Second, h.both(old.Key), http.StatusUnauthorized)
	for _, replica := range h.both(next.Key) {
		replica.post(t, chatRoute, ask("sandbox", "hello")).want(t, http.StatusOK)
	}
	h.operator(stack.Edge).post(t, "/admin/v1/keys/"+old.ID+"/rotate", object{}).refused(t, http.StatusConflict, "conflict", "")
}

// A key that is revoked at one replica is refused by both within a second. So is a key that has expired, until its
// expiry is removed.
func TestEdgeEndsOfKeys(t *testing.T) {
	h := pairOfEdges(t)
	for name, end := range map[string]func(id string){
		"revoked": func(id string) {
			h.operator(secondEdge).do(t, http.MethodDelete, "/admin/v1/keys/"+id, nil).want(t, http.StatusNoContent)
		},
		"revoked by command": func(id string) {
			if out, err := h.Command(t.Context(), stack.Edge, "keys", "revoke", id).CombinedOutput(); err != nil {
				t.Fatalf("edge keys revoke: %v: %s", err, out)
			}
		},
		"rotated without overlap": func(id string) {
			h.keyByOperator(t, http.MethodPost, "/admin/v1/keys/"+id+"/rotate", object{"overlap_seconds": 0}, http.StatusCreated)
		},
	} {
		t.Run(name, func(t *testing.T) {
			k := h.key(t, unique("org"), "ai", "read")
			for _, replica := range h.both(k.Key) {
				replica.post(t, chatRoute, ask("sandbox", "hello")).want(t, http.StatusOK)
			}
			end(k.ID)
			awaitRefusal(t, time.Second, h.both(k.Key), http.StatusUnauthorized)
		})
	}
	t.Run("expired", func(t *testing.T) {
		k := h.key(t, unique("org"), "ai", "read")
		replicas := h.both(k.Key)
		replicas[1].post(t, chatRoute, ask("sandbox", "hello")).want(t, http.StatusOK)
		soon := time.Now().Add(time.Second).UTC().Format(time.RFC3339Nano)
		h.keyByOperator(t, http.MethodPatch, "/admin/v1/keys/"+k.ID, object{"expires_at": soon}, http.StatusOK)
		awaitRefusal(t, time.Second+spreadTimeout, replicas, http.StatusUnauthorized)
		h.keyByOperator(t, http.MethodPatch, "/admin/v1/keys/"+k.ID, object{"expires_at": nil}, http.StatusOK)
		for _, replica := range replicas {
			waitFor(t, spreadTimeout, "the key's return", func() error {
				if a := replica.post(t, chatRoute, ask("sandbox", "hello")); a.status != http.StatusOK {
					return fmt.Errorf("status %d", a.status)
				}
				return nil
			})
		}
	})
}

// callConcurrently calls both replicas from eight clients, and returns how many calls were served; all others must have
// been refused by the rate limit.
func (h *harness) callConcurrently(t *testing.T, key string, calls int64) (served int64) {
	t.Helper()
	var begun, good atomic.Int64
	var callers sync.WaitGroup
	for i := range 8 {
		replica := h.both(key)[i%2]
		callers.Go(func() {
			for begun.Add(1) <= calls {
				a, err := replica.try(t, http.MethodPost, chatRoute, ask("sandbox", "hello"))
				switch {
				case err == nil && a.status == http.StatusOK && a.header.Get("RateLimit") != "":
					good.Add(1)
				case err != nil || a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") == "" || a.header.Get("RateLimit-Policy") == "":
					t.Errorf("status %d, %v, headers %v", a.status, err, a.header)
				}
			}
		})
	}
	callers.Wait()
	return good.Load()
}

// A limit holds over both replicas, except for the calls that each may serve before it has settled; without Redis each
// replica limits by itself.
func TestEdgeRateLimits(t *testing.T) {
	h := pairOfEdges(t)
	limited := func(organization string, requests int) productKey {
		return h.keyByOperator(t, http.MethodPost, "/admin/v1/keys", object{
			"organization_id": organization, "product": "ai", "permissions": []string{"read"},
			"rate_limit": object{"requests": requests, "window_seconds": 3600},
		}, http.StatusCreated)
	}
	const most, leases = 200, 2 * 4
	k := limited(unique("org"), most)
	served := h.callConcurrently(t, k.Key, 2*most)
	a := h.both(k.Key)[0].post(t, chatRoute, ask("sandbox", "hello"))
	for a.status == http.StatusOK && served <= most+leases { // The replica may have yet to settle.
		served++
		a = h.both(k.Key)[0].post(t, chatRoute, ask("sandbox", "hello"))
	}
	if served < most || served > most+leases {
		t.Errorf("%d served, want %d to %d", served, most, most+leases)
	}
	f := a.refused(t, http.StatusTooManyRequests, "rate_limited", "")
	if f.Class != "rate_limit" || f.RetryAfter < 1 || a.header.Get("RateLimit-Policy") != fmt.Sprintf(`"key";q=%d;w=3600`, most) {
		t.Errorf("error %+v, headers %v", f, a.header)
	}

	t.Run("of an organization", func(t *testing.T) {
		organization := unique("org")
		path := "/admin/v1/organizations/" + organization + "/rate-limit"
		first, second := h.key(t, organization, "ai", "read"), h.key(t, organization, "ai", "read")
		for _, replica := range h.both(first.Key) { // both replicas know the key before there is a limit
			replica.post(t, chatRoute, ask("sandbox", "hello")).want(t, http.StatusOK)
		}
		h.operator(stack.Edge).do(t, http.MethodPut, path, object{"requests": 20, "window_seconds": 3600}).want(t, http.StatusOK)
		for _, replica := range h.both(first.Key) {
			waitFor(t, spreadTimeout, "the limit", func() error {
				if replica.post(t, chatRoute, ask("sandbox", "hello")).header.Get("RateLimit") == "" {
					return fmt.Errorf("not there")
				}
				return nil
			})
		}
		served := h.callConcurrently(t, first.Key, 15) + h.callConcurrently(t, second.Key, 30)
		if served < 18 || served > 18+2 { // two of the 20 calls were made above
			t.Errorf("%d served, want 18 to 20", served)
		}
		h.operator(stack.Edge).do(t, http.MethodDelete, path, nil).want(t, http.StatusNoContent)
		waitFor(t, spreadTimeout, "the end of the limit", func() error {
			if a := h.both(second.Key)[1].post(t, chatRoute, ask("sandbox", "hello")); a.status != http.StatusOK {
				return fmt.Errorf("status %d", a.status)
			}
			return nil
		})
	})
	t.Run("without Redis", func(t *testing.T) {
		k := limited(unique("org"), 30)
		if err := h.Kill(store.Redis); err != nil {
			t.Fatal(err)
		}
		served := h.callConcurrently(t, k.Key, 120)
		if err := h.Restart(t.Context(), store.Redis); err != nil {
			t.Fatal(err)
		}
		if served < 30 || served > 60 {
			t.Errorf("%d served, want 30 to 60", served)
		}
	})
}

// kill -9 of a replica during calls to both: every answered call is billed, once, and each period of the usage report
// has the same sum.
func TestEdgeCountsOverReplicas(t *testing.T) {
	t.Parallel()
	h := pairOfEdges(t)
	organization := unique("org")
	k := h.key(t, organization, "ai", "read")
	callers := slices.Repeat(h.both(k.Key), 3)
	answered := h.killDuring(t, secondEdge, callers, 200)
	h.countAll(t, organization, answered, int64(len(callers)/2)) // one for each caller of the killed replica
	for _, period := range []string{"minute", "hour", "day"} {
		// What the killed replica had counted of calls that were cut off may still come.
		waitFor(t, waitTimeout, "counts by "+period+" that are those in all", func() error {
			if by, all := h.countBy(t, period, k.ID), h.counted(t, organization, "llm_requests"); by != all {
				return fmt.Errorf("by %s %d, in all %d", period, by, all)
			}
			return nil
		})
	}
	h.operator(stack.Edge).get(t, "/admin/v1/usage?period=hour&from=2020-01-01T00:00:00Z").refused(t, http.StatusBadRequest, "invalid_request", "from: counts by the hour are kept")
}

// countBy returns the sum of a key's counts by a period.
func (h *harness) countBy(t *testing.T, period, key string) (sum int64) {
	t.Helper()
	var page struct {
		Usage []struct {
			Key   string    `json:"key_id"`
			Start time.Time `json:"start"`
			Count int64     `json:"count"`
		} `json:"usage"`
	}
	h.operator(secondEdge).get(t, "/admin/v1/usage?period="+period+"&key_id="+key).into(t, http.StatusOK, &page)
	for _, line := range page.Usage {
		if line.Key != key || line.Start.IsZero() {
			t.Errorf("by %s: %+v", period, line)
		}
		sum += line.Count
	}
	return sum
}

// The command does the same as the operator API, and the audit has an entry for each change.
func TestEdgeKeysByCommand(t *testing.T) {
	t.Parallel()
	h := pairOfEdges(t)
	organization := unique("org")
	run := func(args ...string) (k productKey) {
		t.Helper()
		out, err := h.Command(t.Context(), stack.Edge, append([]string{"keys"}, args...)...).Output()
		if err != nil {
			t.Fatalf("edge keys %v: %v", args, err)
		}
		if json.Unmarshal(out, &k) == nil && k.Key != "" {
			knownSecrets.add("the product key "+k.ID, k.Key)
		}
		return k
	}
	first := run("create", "--org", organization, "--product", "ai", "--permission", "read", "--limit", "100/1m/7", "--json")
	second := run("rotate", first.ID, "--overlap", "1h", "--json")
	run("expire", second.ID, "--in", "24h")
	for _, key := range []string{first.Key, second.Key} {
		a := h.both(key)[0].post(t, chatRoute, ask("sandbox", "hello")).want(t, http.StatusOK)
		if a.header.Get("RateLimit-Policy") != `"key";q=100;w=60` {
			t.Errorf("policy %q", a.header.Get("RateLimit-Policy"))
		}
	}
	run("limit", second.ID, "none")
	run("expire", second.ID, "--never")
	run("revoke", first.ID)
	narrow := run("create", "--org", unique("org"), "--product", "webhooks", "--permission", "webhooks:endpoints:read, webhooks:events:write", "--json")
	reader := h.both(narrow.Key)[0]
	reader.get(t, "/product/v1/webhooks/endpoints").want(t, http.StatusOK)
	reader.get(t, deliveryRoute).refused(t, http.StatusForbidden, "permission_denied", "webhooks:deliveries:read or read")
	out, err := h.Command(t.Context(), stack.Edge, "keys", "create", "--org", organization, "--product", "ai", "--permission", "ai:chat:read").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "permissions: must hold one or more of read, write, ai:*") {
		t.Errorf("an unknown scope: %v: %s", err, out)
	}
	var page struct {
		Entries []struct{ Actor, Action string }
	}
	h.operator(stack.Edge).get(t, "/admin/v1/audit?organization_id="+organization).into(t, http.StatusOK, &page)
	var got []string
	for _, e := range page.Entries {
		if len(e.Actor) < len("cli:x") || e.Actor[:4] != "cli:" {
			t.Errorf("by %q", e.Actor)
		}
		got = append(got, e.Action)
	}
	same(t, []string{"key.revoke", "key.update", "key.update", "key.update", "key.rotate", "key.create"}, got)
}
