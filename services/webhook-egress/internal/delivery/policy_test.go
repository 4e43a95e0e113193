package delivery_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"switchyard.dev/services/webhook-egress/internal/delivery"
)

var (
	policy = delivery.Policy{Schedule: []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute}, HoldDelay: 7 * time.Second}
	now    = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

func TestNext(t *testing.T) {
	const delivered, retrying, failed = delivery.StatusDelivered, delivery.StatusRetrying, delivery.StatusFailed
	tests := map[string]struct {
		job    delivery.Job
		answer delivery.Answer
		random float64
		want   delivery.Step
	}{
		"success": {
			delivery.Job{MaxAttempts: 3},
			delivery.Answer{Status: 204},
			0,
			delivery.Step{Status: delivered, Outcome: delivery.OutcomeDelivered, Attempts: 1},
		},
		"first failure waits the first delay": {
			delivery.Job{MaxAttempts: 3},
			delivery.Answer{Status: 500},
			0,
			delivery.Step{Status: retrying, Outcome: delivery.OutcomeRetry, Attempts: 1, Fault: delivery.FaultServer, Delay: 5 * time.Second},
		},
		"jitter only adds": {
			delivery.Job{Attempts: 1, MaxAttempts: 3},
			delivery.Answer{Status: 500},
			0.5,
			delivery.Step{Status: retrying, Outcome: delivery.OutcomeRetry, Attempts: 2, Fault: delivery.FaultServer, Delay: 33 * time.Second},
		},
		"the last delay repeats": {
			delivery.Job{Attempts: 7, MaxAttempts: 20},
			delivery.Answer{Fault: delivery.FaultTimeout},
			0,
			delivery.Step{Status: retrying, Outcome: delivery.OutcomeRetry, Attempts: 8, Fault: delivery.FaultTimeout, Delay: 2 * time.Minute},
		},
		"the last attempt": {
			delivery.Job{Attempts: 2, MaxAttempts: 3},
			delivery.Answer{Fault: delivery.FaultDNS},
			0,
			delivery.Step{Status: failed, Outcome: delivery.OutcomeFailed, Attempts: 3, Fault: delivery.FaultDNS},
		},
		"gone ends it": {
			delivery.Job{MaxAttempts: 12},
			delivery.Answer{Status: 410},
			0,
			delivery.Step{Status: failed, Outcome: delivery.OutcomeGone, Attempts: 1, Fault: delivery.FaultClient},
		},
		"other client errors are tried again": {
			delivery.Job{MaxAttempts: 12},
			delivery.Answer{Status: 404, RetryAfter: 10 * time.Minute},
			0,
			delivery.Step{Status: retrying, Outcome: delivery.OutcomeRetry, Attempts: 1, Fault: delivery.FaultClient, Delay: 5 * time.Second},
		},
		"a redirect is a failure": {
			delivery.Job{MaxAttempts: 12},
			delivery.Answer{Status: 302},
			0,
			delivery.Step{Status: retrying, Outcome: delivery.OutcomeRetry, Attempts: 1, Fault: delivery.FaultRedirect, Delay: 5 * time.Second},
		},
		"the target asks for more time": {
			delivery.Job{MaxAttempts: 12},
			delivery.Answer{Status: 429, RetryAfter: time.Minute},
			0,
			delivery.Step{Status: retrying, Outcome: delivery.OutcomeRetry, Attempts: 1, Fault: delivery.FaultClient, Delay: time.Minute},
		},
		"asking for less changes nothing": {
			delivery.Job{MaxAttempts: 12},
			delivery.Answer{Status: 503, RetryAfter: time.Second},
			0,
			delivery.Step{Status: retrying, Outcome: delivery.OutcomeRetry, Attempts: 1, Fault: delivery.FaultServer, Delay: 5 * time.Second},
		},
		"asking for a week gets a day": {
			delivery.Job{MaxAttempts: 12},
			delivery.Answer{Status: 503, RetryAfter: 7 * 24 * time.Hour},
			0.9,
			delivery.Step{Status: retrying, Outcome: delivery.OutcomeRetry, Attempts: 1, Fault: delivery.FaultServer, Delay: 24 * time.Hour},
		},
		"not beyond the deadline": {
			delivery.Job{MaxAttempts: 12, Deadline: now.Add(2 * time.Second)},
			delivery.Answer{Status: 500},
			0,
			delivery.Step{Status: retrying, Outcome: delivery.OutcomeRetry, Attempts: 1, Fault: delivery.FaultServer, Delay: 2 * time.Second},
		},
		"a status that is none": {
			delivery.Job{MaxAttempts: 12},
			delivery.Answer{Status: 99},
			0,
			delivery.Step{Status: retrying, Outcome: delivery.OutcomeRetry, Attempts: 1, Fault: delivery.FaultResponse, Delay: 5 * time.Second},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := policy.Next(&tt.job, tt.answer, now, tt.random)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("step (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNextProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		job := delivery.Job{MaxAttempts: rapid.IntRange(1, 20).Draw(t, "max")}
		job.Attempts = rapid.IntRange(0, job.MaxAttempts-1).Draw(t, "attempts")
		hint := rapid.IntRange(0, 200_000).Draw(t, "hint")
		answer := delivery.Answer{
			Status:     rapid.IntRange(100, 599).Draw(t, "status"),
			RetryAfter: time.Duration(hint) * time.Second,
		}
		step := policy.Next(&job, answer, now, rapid.Float64Range(0, 0.999999).Draw(t, "random"))
		base := policy.Schedule[min(job.Attempts, len(policy.Schedule)-1)]
		switch {
		case step.Attempts != job.Attempts+1 || step.Attempts > job.MaxAttempts:
			t.Fatalf("attempts %d after %d of %d", step.Attempts, job.Attempts, job.MaxAttempts)
		case (answer.Status/100 == 2) != (step.Status == delivery.StatusDelivered):
			t.Fatalf("status %d became %s", answer.Status, step.Status)
		case step.Status.Ended() != (step.Delay == 0):
			t.Fatalf("%s with a delay of %v", step.Status, step.Delay)
		case step.Status == delivery.StatusRetrying && step.Delay < base:
			t.Fatalf("delay %v is earlier than the schedule's %v", step.Delay, base)
		case step.Delay > 24*time.Hour:
			t.Fatalf("delay %v is over the cap", step.Delay)
		case step.Status == delivery.StatusRetrying && answer.Status >= 500 && step.Delay < min(time.Duration(hint)*time.Second, 24*time.Hour):
			t.Fatalf("delay %v is earlier than the %d s asked for", step.Delay, hint)
		}
	})
}

func TestHoldCostsNoAttempt(t *testing.T) {
	for attempts, want := range map[int]delivery.Status{0: delivery.StatusQueued, 3: delivery.StatusRetrying} {
		job := delivery.Job{Attempts: attempts, MaxAttempts: 5}
		got := policy.Hold(&job, delivery.FaultSigningSecretMissing)
		step := delivery.Step{Status: want, Attempts: attempts, Fault: delivery.FaultSigningSecretMissing, Delay: 7 * time.Second, Held: true}
		if diff := cmp.Diff(step, got); diff != "" {
			t.Errorf("after %d attempts (-want +got):\n%s", attempts, diff)
		}
	}
}

func TestExpired(t *testing.T) {
	for name, tt := range map[string]struct {
		deadline time.Time
		want     bool
	}{
		"no deadline": {time.Time{}, false},
		"to come":     {now.Add(1), false},
		"now":         {now, true},
		"passed":      {now.Add(-1), true},
	} {
		step, expired := delivery.Expired(&delivery.Job{Attempts: 2, Deadline: tt.deadline}, now)
		if expired != tt.want {
			t.Errorf("%s: expired %t", name, expired)
		}
		want := delivery.Step{}
		if tt.want {
			want = delivery.Step{Status: delivery.StatusExpired, Attempts: 2}
		}
		if diff := cmp.Diff(want, step); diff != "" {
			t.Errorf("%s: step (-want +got):\n%s", name, diff)
		}
	}
}
