package postgres_test

import (
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/breaker"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/dispatch"
)

// draftTo returns a delivery to a path of one host.
func draftTo(t *testing.T, organization, path string) *delivery.Draft {
	t.Helper()
	u, err := url.Parse("https://example.com" + path)
	if err != nil {
		t.Fatal(err)
	}
	d := draft(organization)
	d.URL, d.Target = u.String(), delivery.TargetOf(organization, u)
	return d
}

// Each path has a flow, whatever the query. Deliveries with an ordering key use the host's flow, the only one that the
// previous release finds.
func TestFlowsOfPaths(t *testing.T) {
	s, pool := open(t)
	flows := make(map[string]int64)
	for _, path := range []string{"/a", "/b", "/a?token=1", "/a%2Fb", "/a/b", "", "/"} {
		stored := enqueue(t, s, leaseOf(1, false), draftTo(t, "acme", path), draftTo(t, "globex", path))
		flows["acme "+path], flows["globex "+path] = stored[0].Flow.ID, stored[1].Flow.ID
	}
	flows["ordered"] = enqueue(t, s, leaseOf(1, false), draft("acme"))[0].Flow.ID
	flows["again"] = enqueue(t, s, leaseOf(1, false), draftTo(t, "acme", "/b"))[0].Flow.ID
	if flows["acme /a"] != flows["acme /a?token=1"] || flows["again"] != flows["acme /b"] {
		t.Errorf("a path has two flows: %v", flows)
	}
	const paths = 6 // of each organization
	different := make(map[int64]bool)
	for _, flow := range flows {
		different[flow] = true
	}
	if len(different) != 2*paths+1 {
		t.Errorf("%d flows, want %d: %v", len(different), 2*paths+1, flows)
	}
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM flow WHERE endpoint_id IS NULL AND NOT of_path"); n != 1 {
		t.Errorf("%d flows of the host, want 1", n)
	}
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM flow WHERE of_path AND substr(endpoint_id::text, 15, 1) = '8'"); n != 2*paths {
		t.Errorf("%d flows of paths with an id of version 8, want %d", n, 2*paths)
	}
}

// A stream of new paths over several replicas adds a bounded number of flows, and only to its own organization.
// Deliveries to known paths keep their flows.
func TestPathsAreBounded(t *testing.T) {
	s, pool := open(t)
	known := enqueue(t, s, leaseOf(1, false), draftTo(t, "acme", "/known"))[0].Flow.ID
	testkit.Exec(t, pool, `INSERT INTO flow (organization_id, scheme, host, port, endpoint_id, of_path)
		SELECT 'acme', 'https', 'example.com', 443, gen_random_uuid(), true FROM generate_series(1, 990)`)
	var group errgroup.Group
	for replica := range 3 {
		group.Go(func() error {
			for round := range 4 {
				var drafts []*delivery.Draft
				for n := range 100 {
					drafts = append(drafts, draftTo(t, "acme", fmt.Sprintf("/new/%d", n+100*round+50*replica)))
				}
				if _, err := s.Enqueue(t.Context(), drafts, leaseOf(1, false)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	const most = 991 + 3*100 + 64 // Each batch may begin below the bound.
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM flow"); n > most || n < 1000 {
		t.Errorf("%d flows, want 1000 to %d", n, most)
	}
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM delivery_queue JOIN flow USING (flow_id)"); n != 1201 {
		t.Errorf("%d deliveries are queued, want 1201", n)
	}
	if again := enqueue(t, s, leaseOf(1, false), draftTo(t, "acme", "/known"))[0].Flow.ID; again != known {
		t.Errorf("a known path's flow is %d, and was %d", again, known)
	}
	before := testkit.Value[int](t, pool, "SELECT count(*) FROM flow")
	enqueue(t, s, leaseOf(1, false), draftTo(t, "acme", "/one/more"), draftTo(t, "globex", "/one/more"))
	if n := testkit.Value[int](t, pool, "SELECT count(*) FROM flow"); n < before+1 || n > before+2 {
		t.Errorf("%d flows, want the other organization's besides %d and one shared at most", n, before)
	}
}

// A delivery says whether other paths share its flow, whether it is sent from memory or claimed.
func TestDeliveriesOfSharedFlows(t *testing.T) {
	s, pool := open(t)
	own := draftTo(t, "acme", "/own")
	enqueue(t, s, leaseOf(1, false), own)
	testkit.Exec(t, pool, `INSERT INTO flow (organization_id, scheme, host, port, endpoint_id, of_path)
		SELECT 'acme', 'https', 'example.com', 443, gen_random_uuid(), true FROM generate_series(1, 999)`)
	shared := draftTo(t, "acme", "/shared?token=1")
	stored := enqueue(t, s, leaseOf(1, false), draftTo(t, "acme", "/own"), shared)
	if stored[0].Flow.ManyPaths || !stored[1].Flow.ManyPaths {
		t.Errorf("flows %+v, want the second to be shared", stored)
	}
	jobs := claim(t, s, 1, 8).Jobs
	if len(jobs) != 3 {
		t.Fatalf("%d jobs claimed, want 3", len(jobs))
	}
	for _, job := range jobs {
		if want := job.ID == shared.ID; job.ManyPaths != want || job.SharesFlow() != want {
			t.Errorf("%s: shared %v, want %v", job.URL, job.ManyPaths, want)
		}
	}
}

// movedFlow returns a result that moves the circuit of the job's flow.
func movedFlow(job delivery.Job, state breaker.State) dispatch.Result {
	r := moved(job, state)
	r.Own, r.Host = r.Host, breaker.Move{}
	r.Own.Target.Flow = job.FlowID
	return r
}

// The circuit of a flow parks only that flow; the circuit of a host parks all flows there. Each releases what it
// parked.
func TestMovesOfFlowsAndTheirHost(t *testing.T) {
	s, pool := open(t)
	enqueue(t, s, leaseOf(1, false), draftTo(t, "acme", "/1"), draftTo(t, "acme", "/1"))
	enqueue(t, s, leaseOf(1, false), draftTo(t, "acme", "/2"), draftTo(t, "acme", "/2"))
	jobs := map[int64]delivery.Job{}
	for _, job := range claim(t, s, 1, 1).Jobs {
		jobs[job.FlowID] = job
	}
	testkit.Exec(t, pool, "UPDATE flow SET ready_at = now()")
	open := func(minutes int) breaker.State {
		return breaker.State{Phase: breaker.Open, Opened: 2, Until: time.Now().Add(time.Duration(minutes) * time.Minute)}
	}
	parked := func(minutes int) flowRow { return flowRow{"open", "breaker_open", 2, minutes, minutes} }
	ready := flowRow{State: "closed"}
	for _, step := range []struct {
		name   string
		result dispatch.Result
		want   []flowRow
		byHost int
	}{
		{"the first flow's opened", movedFlow(jobs[1], open(40)), []flowRow{parked(40), ready}, 0},
		{"the host's opened for less", moved(jobs[2], open(20)), []flowRow{parked(40), parked(20)}, 1},
		{"the host's closed", moved(jobs[2], breaker.State{Opened: 2}), []flowRow{parked(40), ready}, 0},
		{"the host's opened for more", moved(jobs[2], open(60)), []flowRow{parked(60), parked(60)}, 2},
		{"the first flow's closed", movedFlow(jobs[1], breaker.State{Opened: 2}), []flowRow{parked(60), parked(60)}, 2},
		{"the host's is tried", moved(jobs[2], breaker.State{Phase: breaker.HalfOpen, Opened: 2, Level: 2}), []flowRow{parked(0), parked(0)}, 2},
		{"the host's closed again", moved(jobs[2], breaker.State{Opened: 2}), []flowRow{ready, ready}, 0},
	} {
		settle(t, s, step.result)
		got := flows(t, pool)
		for i := range got {
			got[i].Parked, got[i].Ready = (got[i].Parked+300)/600*10, (got[i].Ready+300)/600*10 // To ten minutes.
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
		if n := testkit.Value[int](t, pool, "SELECT count(*) FROM flow WHERE parked_by_host"); n != step.byHost {
			t.Errorf("%s: %d flows wait for the host, want %d", step.name, n, step.byHost)
		}
	}
}

// When the pause of a host is over, its flows without a failure come first, then those whose last failure is the
// oldest.
func TestFlowsTakeTurns(t *testing.T) {
	s, pool := open(t)
	var drafts []*delivery.Draft
	for n := range 5 {
		drafts = append(drafts, draftTo(t, "acme", fmt.Sprint("/", n)))
	}
	var ids []int64
	for _, stored := range enqueue(t, s, leaseOf(1, false), drafts...) {
		ids = append(ids, stored.Flow.ID)
	}
	jobs := map[int64]delivery.Job{}
	for _, job := range claim(t, s, 1, 1).Jobs {
		jobs[job.FlowID] = job
	}
	testkit.Exec(t, pool, "UPDATE flow SET ready_at = now()")
	for i, flow := range ids[:4] { // The last flow has no health row.
		testkit.Exec(t, pool, "INSERT INTO flow_health (flow_id, last_failed_at) VALUES ($1, now() - $2 * interval '1 minute')", flow, []int{3, 9, 1, 5}[i])
	}
	state := breaker.State{Phase: breaker.Open, Opened: 1, Until: time.Now().Add(time.Minute)}
	for _, step := range []struct {
		probe int64
		want  []int64
	}{
		{ids[0], []int64{ids[4], ids[1], ids[3], ids[2], ids[0]}},
		{ids[4], []int64{ids[1], ids[3], ids[2], ids[0], ids[4]}},
		{ids[1], []int64{ids[3], ids[2], ids[0], ids[4], ids[1]}},
	} {
		settle(t, s, moved(jobs[step.probe], state))
		rows, err := pool.Query(t.Context(), "SELECT flow_id FROM flow ORDER BY ready_at")
		if err != nil {
			t.Fatal(err)
		}
		var got []int64
		for rows.Next() {
			var id int64
			if err := rows.Scan(&id); err != nil {
				t.Fatal(err)
			}
			got = append(got, id)
		}
		if err := rows.Err(); err != nil || !slices.Equal(got, step.want) {
			t.Errorf("after the probe of %d: %v, want %v (%v)", step.probe, got, step.want, err)
		}
	}
}
