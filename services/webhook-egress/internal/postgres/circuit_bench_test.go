package postgres_test

import (
	"testing"

	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/migrations"
)

// BenchmarkCircuitSize reports the bytes, with indexes, that a flow takes with its health, which are a circuit in
// Postgres: while it has never been open, while it is open with a delivery waiting, and after several such times.
func BenchmarkCircuitSize(b *testing.B) {
	const circuits = 20_000
	for b.Loop() {
		pool := testkit.Postgres(b, migrations.FS)
		measure := func(state string) {
			b.Helper()
			testkit.Exec(b, pool, "VACUUM ANALYZE flow, flow_health")
			for _, table := range []string{"flow", "flow_health"} {
				bytes := testkit.Value[int64](b, pool, "SELECT pg_total_relation_size($1::text::regclass)", table)
				b.ReportMetric(float64(bytes)/circuits, "B/"+table+","+state)
			}
		}
		testkit.Exec(b, pool, `INSERT INTO flow (organization_id, scheme, host, port, endpoint_id)
			SELECT 'org_' || md5((n / 20)::text), 'https', 'hooks.customer-' || n || '.example.com', 443, gen_random_uuid()
			FROM generate_series(1, $1::integer) AS n`, circuits)
		testkit.Exec(b, pool, `INSERT INTO flow_health (flow_id, delivered, failed, consecutive_failures, last_delivered_at, last_failed_at)
			SELECT flow_id, 1000, 5, 5, now(), now() FROM flow`)
		measure("never-open")
		for range 3 {
			testkit.Exec(b, pool, `UPDATE flow SET state = 'open', parked_reason = 'breaker_open', parked_until = now() + interval '10 s',
				ready_at = now() + interval '10 s', opened = 1`)
			testkit.Exec(b, pool, "UPDATE flow_health SET failed = failed + 1, consecutive_failures = consecutive_failures + 1, last_failed_at = now()")
			measure("open")
			testkit.Exec(b, pool, `UPDATE flow SET state = 'closed', parked_reason = NULL, parked_until = '-infinity', ready_at = 'infinity', opened = 0`)
			measure("closed-again")
		}
	}
}
