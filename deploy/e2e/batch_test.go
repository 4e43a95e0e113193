//go:build e2e

package e2e_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"switchyard.dev/deploy/dev/stack"
)

// batchVendors are the vendors of a test of both APIs.
type batchVendors map[string]vendor

func addBatchVendors(name string) batchVendors {
	v := batchVendors{}
	for _, a := range batchAPIs {
		v[a.dialect] = addBatchVendor(name+"-"+a.dialect, a.dialect)
	}
	return v
}

var (
	batchCeilings = addBatchVendors("batch-ceiling")
	batchSuspends = addBatchVendors("batch-suspend")
	batchCancels  = addBatchVendors("batch-cancel")
	batchOwners   = addBatchVendors("batch-owner")
	batchPurges   = addBatchVendors("batch-purge")
)

// eachBatchAPI runs a test in the form of each API.
func eachBatchAPI(t *testing.T, vendors batchVendors, test func(t *testing.T, h *harness, a batchAPI, v vendor)) {
	t.Helper()
	t.Parallel()
	h := use(t)
	for _, a := range batchAPIs {
		t.Run(a.dialect, func(t *testing.T) { test(t, h, a, vendors[a.dialect]) })
	}
}

// sentNothing checks that nothing of a batch has reached a vendor.
func (h *harness) sentNothing(t *testing.T, a batchAPI, v vendor) {
	t.Helper()
	if jobs := h.listed(t, v, a.batches); len(jobs) > 0 {
		t.Errorf("the vendor has the jobs %v", jobs)
	}
	if a.dialect == "openai" {
		if files := h.listed(t, v, "/v1/files"); len(files) > 0 {
			t.Errorf("the vendor has the files %v", files)
		}
	}
}

// stateAt waits until a vendor's job has a state; the gateway looks after jobs that need it within seconds.
func (h *harness) stateAt(t *testing.T, a batchAPI, v vendor, state string) {
	t.Helper()
	waitFor(t, waitTimeout, "the job is "+state, func() error {
		if jobs := h.listed(t, v, a.batches); len(jobs) != 1 || !strings.HasPrefix(jobs[0].Status, state) {
			return fmt.Errorf("jobs %v", jobs)
		}
		return nil
	})
}

// What a batch can cost and how many calls it has is checked when it is made, against the organization's budget and the
// run's ceiling; a reservation is gone when the batch has ended.
func TestBatchCeilings(t *testing.T) {
	eachBatchAPI(t, batchCeilings, func(t *testing.T, h *harness, a batchAPI, v vendor) {
		t.Helper()
		organization := unique("org")
		c := h.service(stack.Gateway, organization)
		refused := func(c client, code string) {
			t.Helper()
			if got := a.try(t, c, a.requests(v.model, 5)).want(t, http.StatusForbidden); !strings.Contains(string(got.body), code) {
				t.Errorf("%s, want %s", got.body, code)
			}
		}
		h.limit(t, organization, 0.01)
		waitForSpread(t, "the ceiling", func() error {
			if got := a.try(t, c, a.requests(v.model, 1)); got.status != http.StatusForbidden {
				return fmt.Errorf("answered %d", got.status)
			}
			return nil
		})
		refused(c, "budget_exceeded")
		h.limit(t, organization, 1000)
		run := unique("run")
		c.post(t, "/v1/runs/mint", object{"run_id": run, "max_calls": 4}).want(t, http.StatusCreated)
		refused(c.with("X-Run-Id", run), "run_")
		if n := h.reserved(t, organization); n != 0 {
			t.Errorf("%v cents are reserved for batches that were refused", n)
		}
		h.sentNothing(t, a, v)

		other := unique("run")
		c.post(t, "/v1/runs/mint", object{"run_id": other, "max_calls": 5}).want(t, http.StatusCreated)
		id := a.start(t, c.with("X-Run-Id", other), v.model, 5)
		if n := h.reserved(t, organization); n <= 0 {
			t.Error("nothing is reserved for the batch")
		}
		refused(c.with("X-Run-Id", other), "run_") // Its calls are reserved.
		a.settled(t, c, id).billedOnce(t, h, organization, 5)
		if n := h.reserved(t, organization); n != 0 {
			t.Errorf("%v cents are still reserved", n)
		}
		authority := c.get(t, "/v1/runs/"+other+"/authority").want(t, http.StatusOK)
		if calls := gjson.GetBytes(authority.body, "calls").Int(); calls != 5 {
			t.Errorf("the run has %d calls, want 5: %s", calls, authority.body)
		}
	})
}

// The suspension of an organization ends its batches at their vendors.
func TestBatchSuspension(t *testing.T) {
	eachBatchAPI(t, batchSuspends, func(t *testing.T, h *harness, a batchAPI, v vendor) {
		t.Helper()
		organization := unique("org")
		c, operator := h.service(stack.Gateway, organization), h.operator(stack.Gateway)
		id := a.start(t, c, v.model, 3)
		job := a.job(t, h, v)
		h.direct(t, job.ID, object{"status": "in_progress"})
		operator.post(t, "/v1/admin/orgs/"+organization+"/suspend", object{}).want(t, http.StatusOK)
		h.stateAt(t, a, v, "cancel")
		h.direct(t, job.ID, object{"status": "cancelled", "answered": 1})
		operator.post(t, "/v1/admin/orgs/"+organization+"/unsuspend", object{}).want(t, http.StatusOK)
		a.settled(t, c, id).complete(t, c, v.model, 1, 3)
	})
}

// A batch that its caller cancels ends with the results that there are, and only they are billed.
func TestBatchCancel(t *testing.T) {
	eachBatchAPI(t, batchCancels, func(t *testing.T, h *harness, a batchAPI, v vendor) {
		t.Helper()
		organization := unique("org")
		h.limit(t, organization, 1000)
		c := h.service(stack.Gateway, organization)
		id := a.start(t, c, v.model, 4)
		job := a.job(t, h, v)
		h.direct(t, job.ID, object{"status": "in_progress"})
		for range 2 { // It may be repeated.
			c.post(t, a.batches+"/"+id+"/cancel", nil).want(t, http.StatusOK)
		}
		if b := a.get(t, c, id); !strings.HasPrefix(b.status(), "cancel") || b.ended() {
			t.Errorf("after the cancellation: %s", b.Raw)
		}
		h.stateAt(t, a, v, "cancel")
		h.direct(t, job.ID, object{"status": "cancelled", "answered": 3})
		b := a.settled(t, c, id)
		b.complete(t, c, v.model, 3, 4)
		b.billedOnce(t, h, organization, 3)
		if n := h.reserved(t, organization); n != 0 {
			t.Errorf("%v cents are still reserved", n)
		}
		c.post(t, a.batches+"/"+id+"/cancel", nil).want(t, http.StatusOK)
		if again := a.get(t, c, id); again.Raw != b.Raw {
			t.Errorf("a cancellation after the end makes of %s\n%s", b.Raw, again.Raw)
		}
	})
}

// Batches and files belong to their organization and their owner: for all others there are none.
func TestBatchBelongsToItsOwner(t *testing.T) {
	eachBatchAPI(t, batchOwners, func(t *testing.T, h *harness, a batchAPI, v vendor) {
		t.Helper()
		organization := unique("org")
		ann := h.service(stack.Gateway, organization).with("X-Owner-Id", "ann")
		id := a.start(t, ann, v.model, 2)
		b := a.settled(t, ann, id)
		paths := map[string]string{a.batches + "/" + id: http.MethodGet, a.batches + "/" + id + "/cancel": http.MethodPost}
		lists := []string{a.batches}
		if a.dialect == "anthropic" {
			paths[b.Get("results_url").Str] = http.MethodGet
		} else {
			lists = append(lists, "/v1/files")
			for _, file := range []string{b.Get("input_file_id").Str, b.Get("output_file_id").Str} {
				paths["/v1/files/"+file], paths["/v1/files/"+file+"/content"] = http.MethodDelete, http.MethodGet
			}
		}
		for who, c := range map[string]client{
			"another owner": ann.with("X-Owner-Id", "bob"), "no owner": ann.with("X-Owner-Id", ""),
			"another organization": ann.with("X-Organization-Id", unique("org")),
		} {
			for path, verb := range paths {
				if got := c.do(t, verb, path, nil); got.status != http.StatusNotFound {
					t.Errorf("%s: %s %s: answered %d: %s", who, verb, path, got.status, shorten(got.body))
				}
			}
			for _, path := range lists {
				if got := c.get(t, path).want(t, http.StatusOK); gjson.GetBytes(got.body, "data.#").Int() != 0 {
					t.Errorf("%s: %s lists %s", who, path, shorten(got.body))
				}
			}
			if a.dialect == "openai" {
				c.post(t, a.batches, object{"input_file_id": b.Get("input_file_id").Str, "endpoint": a.lines, "completion_window": "24h"}).want(t, http.StatusNotFound)
			}
		}
		b.complete(t, ann, v.model, 2, 2)
	})
}

// A purge erases files and batches. One that is under way ends at its vendor, and what it has cost is billed.
func TestBatchPurge(t *testing.T) {
	eachBatchAPI(t, batchPurges, func(t *testing.T, h *harness, a batchAPI, v vendor) {
		t.Helper()
		organization := unique("org")
		c := h.service(stack.Gateway, organization)
		ended := a.settled(t, c, a.start(t, c, v.model, 2))
		waitFor(t, waitTimeout, "the vendor's files are deleted", func() error {
			if a.dialect == "anthropic" && len(h.listed(t, v, a.batches)) > 0 || a.dialect == "openai" && len(h.listed(t, v, "/v1/files")) > 0 {
				return errors.New("they are there")
			}
			return nil
		})
		before := len(h.listed(t, v, a.batches))
		running := a.start(t, c, v.model, 3)
		var job vendorJob
		waitFor(t, waitTimeout, "a job at the vendor", func() error {
			jobs := h.listed(t, v, a.batches)
			if len(jobs) == before {
				return errors.New("there is none")
			}
			job = jobs[0]
			return nil
		})
		h.direct(t, job.ID, object{"status": "in_progress"})
		h.operator(stack.Gateway).post(t, "/v1/prompt-cache/purge", object{"organization_id": organization}).want(t, http.StatusOK)
		gone := []string{a.batches + "/" + ended.Get("id").Str}
		if a.dialect == "openai" {
			for _, name := range []string{"input_file_id", "output_file_id"} {
				gone = append(gone, "/v1/files/"+ended.Get(name).Str, "/v1/files/"+ended.Get(name).Str+"/content")
			}
		} else {
			gone = append(gone, ended.Get("results_url").Str)
		}
		for _, path := range gone {
			c.get(t, path).want(t, http.StatusNotFound)
		}
		waitFor(t, waitTimeout, "the job is cancelled", func() error {
			if jobs := h.listed(t, v, a.batches); len(jobs) == 0 || !strings.HasPrefix(jobs[0].Status, "cancel") {
				return fmt.Errorf("jobs %v", jobs)
			}
			return nil
		})
		h.direct(t, job.ID, object{"status": "cancelled", "answered": 2})
		waitFor(t, waitTimeout, "what it has cost is billed", func() error {
			if rows := h.rows(t, organization, running, 10); len(rows) != 2 {
				return fmt.Errorf("%d rows, want 2", len(rows))
			}
			return nil
		})
		if a.dialect == "openai" {
			waitFor(t, waitTimeout, "no file is kept", func() error {
				if list := c.get(t, "/v1/files").want(t, http.StatusOK); gjson.GetBytes(list.body, "data.#").Int() > 0 {
					return errors.New(string(list.body))
				}
				return nil
			})
		}
	})
}
