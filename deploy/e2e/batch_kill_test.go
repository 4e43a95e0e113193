//go:build e2e

package e2e_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"switchyard.dev/deploy/dev/stack"
)

// Numbers of requests that no other test has, by which the fakes' jobs are told apart.
const (
	killedRequests  = 6007
	unclearRequests = 17
)

var (
	batchKills   = addBatchVendors("batch-kill")
	batchUnclear = addBatchVendors("batch-unclear")
)

func (h *harness) killGateways(t *testing.T) {
	t.Helper()
	if err := errors.Join(h.Kill(string(stack.Gateway)), h.Kill(string(secondGateway))); err != nil {
		t.Fatal(err)
	}
}

func (h *harness) restartGateways(t *testing.T) {
	t.Helper()
	if err := errors.Join(h.Restart(t.Context(), string(stack.Gateway)), h.Restart(t.Context(), string(secondGateway))); err != nil {
		t.Fatal(err)
	}
}

// batchFeed reads the usage feed of an organization as a billing consumer does.
type batchFeed struct {
	client client
	cursor string
	rows   map[string]int // numbers of rows by batch
	total  int
}

// next reads a page of rows that are new, and returns their number.
func (f *batchFeed) next(t *testing.T) int {
	t.Helper()
	var page struct {
		Records    []billed `json:"records"`
		NextCursor string   `json:"next_cursor"`
	}
	f.client.get(t, "/v1/usage?limit=200&cursor="+f.cursor).into(t, http.StatusOK, &page)
	for _, r := range page.Records {
		f.rows[r.RequestID]++
	}
	f.total += len(page.Records)
	f.cursor = page.NextCursor
	return len(page.Records)
}

// kill -9 of all replicas, before they know that the vendor has made a job, and several times while its results are billed:
// there is one job at the vendor, one row of each answered request, one result of each request, and nothing stays reserved.
func TestBatchOverKills(t *testing.T) {
	t.Parallel()
	const unanswered, kills = 5, 2
	pair := twoGateways
	pair.idle = true // A job that a killed replica held is free after half a minute.
	h := pair.start(t)
	organization := unique("org")
	h.limit(t, organization, 1e6)
	c := h.service(secondGateway, organization)
	ids, jobs := map[string]string{}, map[string]vendorJob{}
	for _, a := range batchAPIs {
		v := batchKills[a.dialect]
		h.script(t, stack.FakeProvider, v.creation(a, object{"slow_body_ms": 1000})) // It is made at once.
		ids[a.dialect] = a.start(t, c, v.model, killedRequests)
	}
	for _, a := range batchAPIs {
		jobs[a.dialect] = a.job(t, h, batchKills[a.dialect])
	}
	if h.reserved(t, organization) <= 0 {
		t.Error("nothing is reserved for the batches")
	}
	h.killGateways(t)
	for _, job := range jobs {
		h.direct(t, job.ID, object{"status": "completed", "answered": killedRequests - unanswered})
	}
	h.restartGateways(t)
	feed := batchFeed{client: c, rows: map[string]int{}}
	for kill := range kills {
		began := time.Now()
		waitFor(t, batchTimeout, "new rows of a batch that is being billed", func() error {
			if feed.next(t) == 0 {
				return errors.New("there is none")
			}
			return nil
		})
		h.killGateways(t)
		h.restartGateways(t)
		for feed.next(t) > 0 {
		}
		t.Logf("kill %d after %s: rows %v", kill+1, time.Since(began).Round(time.Millisecond), feed.rows)
		if feed.total == 2*(killedRequests-unanswered) {
			t.Fatal("both batches were billed before the kill; they need more requests")
		}
	}
	for _, a := range batchAPIs {
		b := a.settled(t, c, ids[a.dialect])
		b.complete(t, c, batchKills[a.dialect].model, killedRequests-unanswered, killedRequests)
		b.billedOnce(t, h, organization, killedRequests-unanswered)
		if n := a.made(t, h, killedRequests); n != 1 {
			t.Errorf("%s: %d jobs were made, want one", a.dialect, n)
		}
	}
	if n := h.reserved(t, organization); n != 0 {
		t.Errorf("%v cents are still reserved", n)
	}
	if said := "hello " + customID(1); strings.Contains(h.rowsOf(t), said) {
		t.Errorf("Postgres holds %q, which a request said", said)
	}
}

// creation is a rule for the next creation of a job at the vendor.
func (v vendor) creation(a batchAPI, action object) rule {
	name, value := "Authorization", "Bearer "+v.key()
	if a.dialect == "anthropic" {
		name, value = "X-Api-Key", v.key()
	}
	return rule{Match: object{"method": http.MethodPost, "path": a.batches, "header": object{name: value}}, Times: 1, Action: action}
}

// A vendor makes a job, and the connection breaks before its answer: the job is found and not made twice.
func TestBatchUnclearCreation(t *testing.T) {
	eachBatchAPI(t, batchUnclear, func(t *testing.T, h *harness, a batchAPI, v vendor) {
		t.Helper()
		organization := unique("org")
		c := h.service(stack.Gateway, organization)
		h.script(t, stack.FakeProvider, v.creation(a, object{"after_bytes": 0}))
		id := a.start(t, c, v.model, unclearRequests)
		job := a.job(t, h, v)
		// A job of Anthropic's tells whose it is by its results only.
		h.direct(t, job.ID, object{"status": "completed"})
		b := a.settled(t, c, id)
		b.complete(t, c, v.model, unclearRequests, unclearRequests)
		b.billedOnce(t, h, organization, unclearRequests)
		if n := a.made(t, h, unclearRequests); n != 1 {
			t.Errorf("%d jobs were made, want one", n)
		}
	})
}
