package redis_test

import (
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/operations/status"
	"switchyard.dev/services/gateway/internal/redis"
	"switchyard.dev/services/platform/testkit"
)

func TestReports(t *testing.T) {
	board := redis.NewReports(testkit.Redis(t))
	for _, id := range []string{"a", "b"} {
		if _, err := board.Exchange(t.Context(), status.Report{Replica: id, Ready: true, Vendors: []status.ProviderReport{{Provider: "p", Failures: 2}}}, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	reports, err := board.Exchange(t.Context(), status.Report{Replica: "a"}, time.Minute)
	if err != nil || len(reports) != 2 {
		t.Fatalf("%+v, %v", reports, err)
	}
	for _, r := range reports {
		if r.Age < 0 || r.Age > 30*time.Second {
			t.Errorf("the report of %s is %s old", r.Replica, r.Age)
		}
		if want := r.Replica == "b"; r.Ready != want {
			t.Errorf("%s is ready: %t, want %t", r.Replica, r.Ready, want)
		}
		if r.Replica == "b" && r.Vendors[0].Failures != 2 {
			t.Errorf("b has %d failures, want 2", r.Vendors[0].Failures)
		}
	}
	if err := board.Delete(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if reports, err = board.Exchange(t.Context(), status.Report{Replica: "a"}, time.Minute); err != nil || len(reports) != 1 {
		t.Errorf("%+v, %v", reports, err)
	}
}
