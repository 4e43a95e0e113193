//go:build e2e

package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	"switchyard.dev/deploy/dev/stack"
)

// addBatchPair adds two vendors that run batches of one model.
func addBatchPair(model string) pair {
	host := func(suffix string) vendor {
		return addVendor(vendor{name: model + suffix, dialect: "openai", model: model, upstream: model + suffix, more: object{"batches": true}})
	}
	return pair{host("-1"), host("-2")}
}

var batchFailovers = map[string]pair{
	"429": addBatchPair("batch-failover-429"), "403": addBatchPair("batch-failover-403"),
	"400": addBatchPair("batch-failover-400"), "file": addBatchPair("batch-failover-file"),
}

// The next vendor of the model gets a job that the first one has refused for certain.
func TestBatchFailover(t *testing.T) {
	t.Parallel()
	h := use(t)
	for name, refusal := range map[string]rule{
		"429":  {Match: object{"path": "/v1/batches"}, Action: object{"status": 429, "retry_after": "1"}},
		"403":  {Match: object{"path": "/v1/batches"}, Action: object{"status": 403}},
		"400":  {Match: object{"path": "/v1/batches"}, Action: object{"status": 400}},
		"file": {Match: object{"path": "/v1/files"}, Action: object{"status": 500}}, // Without it there can be no job.
	} {
		t.Run(name, func(t *testing.T) {
			p, a, organization := batchFailovers[name], openAIBatches, unique("org")
			c := h.service(stack.Gateway, organization)
			run := func() (batchState, string) {
				b := a.settled(t, c, a.start(t, c, p.first.model, 2))
				if b.status() != "completed" {
					t.Fatalf("it ended as %s", b.Raw)
				}
				return b, b.header.Get("X-Switchyard-Provider")
			}
			_, preferred := run() // The organization's own: the two are equal.
			first, second := p.first, p.second
			if preferred == second.name {
				first, second = second, first
			}
			refusal.Times = 1
			refusal.Match = refusal.Match.with(object{"method": http.MethodPost, "header": object{"Authorization": "Bearer " + first.key()}})
			h.script(t, stack.FakeProvider, refusal)
			b, by := run()
			if by != second.name {
				t.Errorf("%s has run it, want %s", by, second.name)
			}
			if left := h.fake(stack.FakeProvider).unrecorded(t, http.MethodGet, "/_script", nil); strings.Contains(string(left.body), first.key()) {
				t.Errorf("%s was not asked", first.name)
			}
			b.complete(t, c, p.first.model, 2, 2)
			b.billedOnce(t, h, organization, 2)
			for _, v := range []vendor{first, second} {
				if jobs := h.listed(t, v, a.batches); len(jobs) != 1 {
					t.Errorf("%s has the jobs %v, want one", v.name, jobs)
				}
			}
			if rows := h.rows(t, organization, b.Get("id").Str, 1); rows[0].Provider != second.name {
				t.Errorf("the row %+v", rows[0])
			}
		})
	}
}

var batchRefused = addBatchVendor("batch-refused", "openai")

// A job that no vendor takes fails, says why, and reserves nothing.
func TestBatchRefusedByAll(t *testing.T) {
	t.Parallel()
	h := use(t)
	v, a, organization := batchRefused, openAIBatches, unique("org")
	h.script(t, stack.FakeProvider, v.creation(a, object{"status": 400, "body": `{"error":{"message":"no batches today","type":"invalid_request_error"}}`}))
	h.limit(t, organization, 1000)
	c := h.service(stack.Gateway, organization)
	b := a.settled(t, c, a.start(t, c, v.model, 2))
	if why := b.Get("errors.data.0.message").Str; b.status() != "failed" || !strings.Contains(why, "no batches today") || b.Get("failed_at").Int() == 0 {
		t.Errorf("it ended as %s", b.Raw)
	}
	if n, rows := h.reserved(t, organization), h.rows(t, organization, b.Get("id").Str, 1); n != 0 || len(rows) > 0 {
		t.Errorf("%v cents are reserved, rows %v", n, rows)
	}
	h.sentNothing(t, a, v)
}
