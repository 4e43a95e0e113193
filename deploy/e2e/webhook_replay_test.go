//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"switchyard.dev/deploy/dev/stack"
)

func TestReplayAfterAnOutage(t *testing.T) {
	t.Parallel()
	h := use(t)
	webhooks, to := h.service(stack.WebhookEgress, unique("org")), h.receiver()
	const lost = 25
	down := make([]object, lost)
	for i := range down {
		down[i] = object{"status": 404}
	}
	to.answers(t, append(down, object{"status": 204})...)
	since := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339Nano)
	var ids []string
	for range lost {
		var got accepted
		webhooks.post(t, deliveryPath, to.deliver(object{"max_attempts": 1})).into(t, http.StatusAccepted, &got)
		ids = append(ids, got.ID)
	}
	for _, id := range ids {
		if d := ended(t, webhooks, id); d.Status != "failed" {
			t.Errorf("record %+v", d)
		}
	}
	dead := listIDs(t, webhooks, "?status=failed&limit=10")
	slices.Sort(dead)
	want := slices.Sorted(slices.Values(ids))
	if !slices.Equal(dead, want) {
		t.Errorf("dead letters %v, want %v", dead, want)
	}
	type job struct {
		ID       string `json:"replay_id"`
		Status   string `json:"status"`
		Matched  int    `json:"matched"`
		Replayed int    `json:"replayed"`
		Skipped  int    `json:"skipped"`
	}
	var dry, made, again job
	ask := object{"filter": object{"created_after": since}}
	webhooks.post(t, replayPath, ask.with(object{"dry_run": true})).into(t, http.StatusOK, &dry)
	if dry.Matched != lost || dry.ID != "" || dry.Status != "counted" {
		t.Errorf("dry run %+v", dry)
	}
	keyed := webhooks.with("Idempotency-Key", "k")
	keyed.post(t, replayPath, ask).into(t, http.StatusAccepted, &made)
	keyed.post(t, replayPath, ask).into(t, http.StatusOK, &again)
	if again.ID != made.ID || made.Matched != lost {
		t.Errorf("made %+v, again %+v", made, again)
	}
	waitFor(t, waitTimeout, "the replay", func() error {
		webhooks.get(t, replayPath+"/"+made.ID).into(t, http.StatusOK, &made)
		if made.Status != "completed" {
			return fmt.Errorf("it is %+v", made)
		}
		return nil
	})
	if made.Replayed != lost || made.Skipped != 0 {
		t.Errorf("job %+v", made)
	}
	for _, id := range ids {
		if d := ended(t, webhooks, id); d.Status != "delivered" || d.Attempts != 1 {
			t.Errorf("record %+v", d)
		}
	}
	if n := len(to.arrivals(t)); n != 2*lost {
		t.Errorf("%d arrivals, want each twice", n)
	}
	webhooks.post(t, replayPath+"/"+made.ID+"/cancel", nil).refused(t, http.StatusConflict, "already_finished", "")
}

func TestResendCancelAndBatch(t *testing.T) {
	t.Parallel()
	h := use(t)
	webhooks, to := h.service(stack.WebhookEgress, unique("org")), h.receiver()
	var batch struct {
		Deliveries []accepted `json:"deliveries"`
		Accepted   int        `json:"accepted"`
		Repeats    int        `json:"deduplicated"`
	}
	one := to.deliver(object{"idempotency_key": "k"})
	webhooks.post(t, deliveryPath+"/batch", object{"deliveries": []object{one, to.deliver(), one}}).into(t, http.StatusAccepted, &batch)
	if batch.Accepted != 2 || batch.Repeats != 1 || batch.Deliveries[2].ID != batch.Deliveries[0].ID {
		t.Fatalf("batch %+v", batch)
	}
	webhooks.post(t, deliveryPath+"/batch", object{"deliveries": []object{to.deliver(), to.deliver(object{"url": "https://10.0.0.1/"})}}).
		refused(t, http.StatusBadRequest, "target_not_allowed", "deliveries[1].url")
	id := batch.Deliveries[0].ID
	for _, a := range batch.Deliveries {
		ended(t, webhooks, a.ID)
	}
	keyed := webhooks.with("Idempotency-Key", "again")
	keyed.post(t, deliveryPath+"/"+id+"/resend", nil).want(t, http.StatusAccepted)
	ended(t, webhooks, id)
	keyed.post(t, deliveryPath+"/"+id+"/resend", nil).want(t, http.StatusOK)
	if n := len(to.arrivals(t)); n != 3 {
		t.Errorf("%d arrivals, want two and one again", n)
	}
	webhooks.post(t, deliveryPath+"/"+id+"/cancel", nil).refused(t, http.StatusConflict, "already_finished", "")
	webhooks.with("X-Owner-Id", "ann").post(t, deliveryPath+"/"+id+"/cancel", nil).want(t, http.StatusNotFound)
	to.answers(t, object{"status": 503})
	var got accepted
	webhooks.post(t, deliveryPath, to.deliver()).into(t, http.StatusAccepted, &got)
	var d delivery
	for range 2 {
		webhooks.post(t, deliveryPath+"/"+got.ID+"/cancel", nil).into(t, http.StatusOK, &d)
		if d.Status != "cancelled" {
			t.Errorf("record %+v", d)
		}
	}
}

// A kill loses no subscription, and a replay continues where it was: each delivery is resent once.
func TestKillDuringAReplay(t *testing.T) {
	t.Parallel()
	h := breakable.get(t)
	webhooks, to := h.service(stack.WebhookEgress, unique("org")), h.receiver()
	secret := endpointSecret(t)
	const lost = 60
	down := make([]object, lost)
	for i := range down {
		down[i] = object{"status": 404}
	}
	to.answers(t, append(down, object{"status": 204})...)
	e := to.subscribe(t, webhooks, []string{"a"}, object{"signing_mode": "endpoint_body", "signing_secret": secret})
	since := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339Nano)
	ids := make([]string, lost)
	for i := range ids {
		ids[i] = webhooks.emit(t, "a", object{"max_attempts": 1}).to(t, e.ID)
	}
	for _, id := range ids {
		ended(t, webhooks, id)
	}
	var job struct {
		ID       string `json:"replay_id"`
		Status   string `json:"status"`
		Replayed int    `json:"replayed"`
	}
	webhooks.post(t, replayPath, object{"filter": object{"created_after": since}, "rate_per_second": 20}).into(t, http.StatusAccepted, &job)
	for range 2 {
		before := job.Replayed
		waitFor(t, waitTimeout, "progress", func() error {
			webhooks.get(t, replayPath+"/"+job.ID).into(t, http.StatusOK, &job)
			if job.Replayed <= before {
				return fmt.Errorf("it is %+v", job)
			}
			return nil
		})
		if err := h.Kill(string(stack.WebhookEgress)); err != nil {
			t.Fatal(err)
		}
		if err := h.Restart(t.Context(), string(stack.WebhookEgress)); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, waitTimeout, "the end of the replay", func() error {
		webhooks.get(t, replayPath+"/"+job.ID).into(t, http.StatusOK, &job)
		if job.Status != "completed" {
			return fmt.Errorf("it is %+v", job)
		}
		return nil
	})
	if job.Replayed != lost {
		t.Errorf("job %+v", job)
	}
	for _, id := range ids {
		ended(t, webhooks, id)
		record := webhooks.get(t, deliveryPath+"/"+id).fields(t, http.StatusOK, "generation", "status")
		if record["generation"] != 2.0 || record["status"] != "delivered" {
			t.Errorf("record %v", record)
		}
	}
	arrived := to.arrivals(t)
	verifyBody(t, secret, arrived[len(arrived)-1])
	if n := len(arrived) - 2*lost; n < 0 || n > 2*chaosInFlight {
		t.Errorf("%d arrivals of %d", len(arrived), 2*lost)
	}
}
