-- name: KeepFlowsAwake :exec
SELECT flow_id FROM flow WHERE flow_id = ANY (@flow_ids::bigint[]) ORDER BY flow_id FOR KEY SHARE;

-- name: LockLeases :many
-- LockLeases returns the leases that are still held, of deliveries that continue. It locks in order, to avoid
-- deadlocks between settles.
SELECT q.delivery_id
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@lease_seqs::bigint[]) AS lease_seq) AS wanted
JOIN delivery_queue q ON q.delivery_id = ANY (ARRAY[wanted.id]) AND q.lease_seq = wanted.lease_seq
ORDER BY wanted.id
FOR UPDATE OF q;

-- name: EndLeases :many
-- EndLeases removes the rows of deliveries that end and whose lease is still held.
DELETE FROM delivery_queue q
USING (SELECT id, lease_seq
       FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@lease_seqs::bigint[]) AS lease_seq) AS ended
       ORDER BY id) AS wanted
WHERE q.delivery_id = ANY (ARRAY[wanted.id]) AND q.lease_seq = wanted.lease_seq
RETURNING q.delivery_id;

-- name: AddAttempts :exec
-- AddAttempts skips a row that exists already: it was written by a settle whose response was lost.
INSERT INTO attempts (delivery_id, created_at, lease_seq, generation, number, outcome, url, remote_ip, response_code,
                      response_body, response_truncated, error, retry_after, started_at,
                      dns_ms, connect_ms, tls_ms, first_byte_ms, total_ms, next_attempt_at)
SELECT delivery_id, created_at, lease_seq, generation, number, outcome, url, NULLIF(remote_ip, ''),
       NULLIF(response_code, 0), response_body, response_truncated, NULLIF(error, ''), NULLIF(retry_after, ''),
       started_at, dns_ms, connect_ms, tls_ms, first_byte_ms, total_ms,
       CASE WHEN outcome = 'retry' THEN now() + delay END
FROM (SELECT unnest(@delivery_ids::uuid[]) AS delivery_id, unnest(@created_ats::timestamptz[]) AS created_at,
             unnest(@lease_seqs::bigint[]) AS lease_seq, unnest(@generations::integer[]) AS generation,
             unnest(@numbers::integer[]) AS number, unnest(@outcomes::text[]) AS outcome, unnest(@urls::text[]) AS url,
             unnest(@remote_ips::text[]) AS remote_ip, unnest(@response_codes::integer[]) AS response_code,
             unnest(@response_bodies::text[]) AS response_body, unnest(@truncated::boolean[]) AS response_truncated,
             unnest(@errors::text[]) AS error, unnest(@retry_afters::text[]) AS retry_after,
             unnest(@started_ats::timestamptz[]) AS started_at, unnest(@dns::real[]) AS dns_ms,
             unnest(@connect::real[]) AS connect_ms, unnest(@tls::real[]) AS tls_ms,
             unnest(@first_byte::real[]) AS first_byte_ms, unnest(@total::real[]) AS total_ms,
             unnest(@delays::interval[]) AS delay) AS attempt
ON CONFLICT (delivery_id, created_at, lease_seq) DO NOTHING;

-- name: UpdateDeliveries :exec
UPDATE deliveries d
SET status = r.status, attempts = r.attempts, url = CASE WHEN r.tried THEN r.url ELSE d.url END,
    last_response_code = CASE WHEN r.tried THEN NULLIF(r.response_code, 0) ELSE d.last_response_code END,
    last_error = CASE WHEN r.tried OR r.error <> '' THEN NULLIF(r.error, '') ELSE d.last_error END,
    lease_seq = CASE WHEN r.ended THEN r.lease_seq ELSE d.lease_seq END,
    updated_at = now(), finished_at = CASE WHEN r.ended THEN now() END
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@created_ats::timestamptz[]) AS created_at,
             unnest(@statuses::text[]) AS status, unnest(@attempts::integer[]) AS attempts,
             unnest(@response_codes::integer[]) AS response_code, unnest(@errors::text[]) AS error,
             unnest(@ended::boolean[]) AS ended, unnest(@tried::boolean[]) AS tried,
             unnest(@lease_seqs::bigint[]) AS lease_seq, unnest(@urls::text[]) AS url) AS r
-- No other column of d may be tested: each row is looked up by its own key, which opens only that row's day.
WHERE d.id = ANY (ARRAY[r.id]) AND d.created_at = r.created_at;

-- name: RemoveRows :exec
DELETE FROM delivery_queue WHERE delivery_id = ANY (@ids::uuid[]);

-- name: ReturnRows :exec
-- ReturnRows increments the fence, so that a result is never counted twice.
UPDATE delivery_queue q
SET due_at = now() + r.delay, lease_seq = q.lease_seq + 1, leased_by = NULL, takeovers = 0, retry = q.retry OR r.retry
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@delays::interval[]) AS delay, unnest(@retries::boolean[]) AS retry) AS r
WHERE q.delivery_id = ANY (ARRAY[r.id]);

-- name: AddDeadLetters :exec
INSERT INTO dead_letter (organization_id, delivery_id, created_at)
SELECT unnest(@organizations::text[]), unnest(@ids::uuid[]), unnest(@created_ats::timestamptz[])
ON CONFLICT DO NOTHING;

-- name: ParkFlows :exec
-- ParkFlows leaves out flows that have got a new circuit.
UPDATE flow f
SET state = 'open', parked_reason = p.reason, parked_until = now() + p.delay, ready_at = now() + p.delay,
    parked_by_host = p.by_host
FROM (SELECT unnest(@flow_ids::bigint[]) AS flow_id, unnest(@reasons::text[]) AS reason,
             unnest(@delays::interval[]) AS delay, unnest(@by_host::boolean[]) AS by_host,
             unnest(@circuits::integer[]) AS circuit) AS p
WHERE f.flow_id = ANY (ARRAY[p.flow_id]) AND f.circuit = p.circuit AND NOT f.paused;

-- name: OpenFlows :exec
-- OpenFlows releases parked flows after a successful probe.
UPDATE flow
SET state = 'closed', parked_reason = NULL, parked_until = '-infinity', ready_at = now(), opened = 0
WHERE flow_id = ANY (@flow_ids::bigint[]) AND state = 'open' AND NOT paused;

-- name: CountHealth :exec
INSERT INTO flow_health AS h (flow_id, delivered, failed, consecutive_failures, last_delivered_at, last_failed_at)
SELECT flow_id, delivered, failed, failed, CASE WHEN delivered > 0 THEN now() END, CASE WHEN failed > 0 THEN now() END
FROM (SELECT unnest(@flow_ids::bigint[]) AS flow_id, unnest(@delivered::bigint[]) AS delivered,
             unnest(@failed::bigint[]) AS failed) AS counted
ORDER BY flow_id
ON CONFLICT (flow_id) DO UPDATE
    SET delivered = h.delivered + excluded.delivered,
        failed = h.failed + excluded.failed,
        consecutive_failures = CASE WHEN excluded.delivered > 0 THEN 0
                                    ELSE h.consecutive_failures + excluded.failed END,
        last_delivered_at = coalesce(excluded.last_delivered_at, h.last_delivered_at),
        last_failed_at = coalesce(excluded.last_failed_at, h.last_failed_at);
