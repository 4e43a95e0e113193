package channel_test

import (
	"testing"
	"time"

	"switchyard.dev/services/notify/internal/channel"
)

func TestRetrySchedule(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	policy := channel.Policy{Schedule: []time.Duration{time.Second, time.Minute}, MaxAttempts: 4}
	retry := channel.Retry(channel.ClassServer, 503, 0)
	tests := map[string]struct {
		number   int
		outcome  channel.Outcome
		lifetime time.Duration
		random   float64
		want     channel.Step
	}{
		"taken":                   {1, channel.Delivered(200), time.Hour, 0, channel.Step{Ended: true, Delivered: true}},
		"first":                   {1, retry, time.Hour, 0, channel.Step{Delay: time.Second}},
		"second":                  {2, retry, time.Hour, 0, channel.Step{Delay: time.Minute}},
		"the last delay repeats":  {3, retry, time.Hour, 0, channel.Step{Delay: time.Minute}},
		"a fifth more at most":    {2, retry, time.Hour, 0.5, channel.Step{Delay: 66 * time.Second}},
		"no further attempts":     {4, retry, time.Hour, 0, channel.Step{Ended: true}},
		"the receiver's wait":     {1, channel.Retry(channel.ClassRate, 429, 30*time.Second), time.Hour, 0, channel.Step{Delay: 30 * time.Second}},
		"the schedule's, longer":  {2, channel.Retry(channel.ClassRate, 429, time.Second), time.Hour, 0, channel.Step{Delay: time.Minute}},
		"a wait beyond the end":   {1, channel.Retry(channel.ClassRate, 429, 2*time.Hour), time.Hour, 0, channel.Step{Delay: time.Hour}},
		"the longest wait":        {1, channel.Retry(channel.ClassRate, 429, 90*time.Hour), 99 * time.Hour, 0, channel.Step{Delay: 24 * time.Hour}},
		"past the end":            {1, retry, -time.Second, 0, channel.Step{}},
		"refused for good":        {1, channel.Failed(channel.ClassClient, 400, ""), time.Hour, 0, channel.Step{Ended: true}},
		"gone":                    {1, channel.Removed(channel.ClassClient, 410), time.Hour, 0, channel.Step{Ended: true}},
		"our credential":          {1, channel.Denied(channel.ClassCredential, 535, false), time.Hour, 0, channel.Step{Delay: time.Second}},
		"our credential for good": {1, channel.Denied(channel.ClassCredential, 403, true), time.Hour, 0, channel.Step{Ended: true}},
		"unknown":                 {1, channel.Lost(channel.ClassTimeout), time.Hour, 0, channel.Step{Delay: time.Second}},
		"handed over":             {9, channel.HandedOver("d", time.Minute), time.Hour, 0.5, channel.Step{Delay: time.Minute}},
		"handed over, near the end": {
			9, channel.HandedOver("d", time.Minute), time.Second, 0, channel.Step{Delay: time.Second},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := policy.Next(tt.number, tt.outcome, now, now.Add(tt.lifetime), tt.random); got != tt.want {
				t.Errorf("step %+v, want %+v", got, tt.want)
			}
		})
	}
}
