-- name: AddHouseEvent :exec
-- AddHouseEvent records an event once for each organization, type, subject and transition.
SELECT house_event_add(@organization_id, @type, @subject, @transition, @data, make_interval(secs => @keep_seconds::double precision));

-- name: PurgeKeyBudgets :execrows
DELETE FROM key_budget WHERE seen_at < now() - interval '2 days';

-- name: LockBudgetMark :one
-- LockBudgetMark lets one replica compare budgets at a time; the others get no row.
SELECT txid::text AS txid, seq FROM budget_mark FOR UPDATE SKIP LOCKED;

-- name: CompareBudgets :one
-- CompareBudgets reads the next transactions of the ledger's feed and compares the budgets that they count under with the
-- thresholds of their organizations. It records an event for every threshold that each has reached, so that the events
-- don't depend on when it runs. Spend is taken from a row's period up to now: rows that are committed meanwhile are in
-- it, and are read by the next step.
WITH next AS MATERIALIZED (
    SELECT ledger_sum_until(cast(@after_txid::text AS xid8), @count::int) AS txid
),
fresh AS MATERIALIZED (
    SELECT calls, organization_id, run_id, key_origin, recorded_at
    FROM ledger_summed AS s
    WHERE s.txid > cast(@after_txid AS xid8) AND s.txid <= (SELECT n.txid FROM next AS n)
    UNION ALL
    -- The rest of a transaction that the previous release read in part.
    SELECT 1::bigint, organization_id, run_id, key_origin, recorded_at
    FROM ledger_entry AS e
    WHERE e.txid = cast(@after_txid AS xid8) AND e.seq > @after_seq::bigint
),
periods AS MATERIALIZED (
    SELECT DISTINCT 'organization' AS kind, f.organization_id, f.organization_id AS subject, o.budget_period AS period,
        budget_period_start(o.budget_period, f.recorded_at) AS start, o.budget_ceiling_cents::numeric AS ceiling_cents
    FROM fresh AS f JOIN organization AS o ON o.organization_id = f.organization_id
    WHERE o.budget_ceiling_cents > 0
    UNION ALL
    SELECT DISTINCT 'key', f.organization_id, f.key_origin, k.period, budget_period_start(k.period, f.recorded_at), k.ceiling_cents::numeric
    FROM fresh AS f JOIN key_budget AS k ON k.organization_id = f.organization_id AND k.key_origin = f.key_origin
    WHERE f.key_origin <> '' AND k.seen_at > f.recorded_at - interval '2 hours'
    UNION ALL
    SELECT DISTINCT 'run', f.organization_id, f.run_id, 'total', '-infinity'::date, r.max_cost_cents::numeric
    FROM fresh AS f JOIN run AS r ON r.organization_id = f.organization_id AND r.run_id = f.run_id
    WHERE f.run_id <> '' AND r.max_cost_cents IS NOT NULL
),
used AS MATERIALIZED (
    SELECT p.kind, p.organization_id, p.subject, p.period, p.start, p.ceiling_cents, CASE p.kind
        WHEN 'organization' THEN (SELECT sum(d.cost_pico_usd) FROM spend_day AS d
            WHERE d.organization_id = p.organization_id AND d.day >= p.start AND d.day < budget_period_end(p.period, p.start))
        WHEN 'key' THEN (SELECT sum(k.cost_pico_usd) FROM spend_key AS k
            WHERE k.organization_id = p.organization_id AND k.key_origin = p.subject
                AND k.day >= p.start AND k.day < budget_period_end(p.period, p.start))
        ELSE (SELECT sum(s.cost_pico_usd) FROM spend_run AS s WHERE s.organization_id = p.organization_id AND s.run_id = p.subject)
    END * 1e-10 AS spent_cents
    FROM periods AS p
),
reached AS MATERIALIZED (
    SELECT u.kind, u.organization_id, u.subject, u.period, u.start, u.ceiling_cents, u.spent_cents, t.percent
    FROM used AS u
    LEFT JOIN organization AS o ON o.organization_id = u.organization_id
    CROSS JOIN LATERAL unnest(coalesce(o.budget_thresholds, '{50,80,100}')) AS t(percent)
    WHERE u.spent_cents * 100 >= u.ceiling_cents * t.percent
),
recorded AS MATERIALIZED (
    SELECT house_event_add(organization_id, 'switchyard.budget.threshold', kind || '/' || subject,
        concat_ws(' ', period, start, percent, ceiling_cents),
        jsonb_build_object('organization_id', organization_id, 'budget', kind, 'subject', subject, 'percent', percent,
            'spent_cents', trim_scale(spent_cents), 'ceiling_cents', ceiling_cents, 'period', period,
            'period_start', CASE WHEN period <> 'total' THEN to_char(start, 'YYYY-MM-DD') END),
        CASE WHEN kind = 'run' THEN interval '30 days' ELSE interval '400 days' END) AS done
    FROM reached
),
moved AS (
    -- The highest seq marks the transaction as fully read.
    UPDATE budget_mark AS m SET txid = coalesce(next.txid, m.txid), seq = 9223372036854775807
    FROM next
    WHERE next.txid IS NOT NULL OR EXISTS (SELECT FROM fresh)
)
SELECT (SELECT coalesce(sum(calls), 0)::bigint FROM fresh) AS compared, (SELECT count(*) FROM recorded) AS recorded;

-- name: SeeCircuits :exec
-- SeeCircuits records that circuits are open, and an event for each that was not.
WITH seen AS MATERIALIZED (
    INSERT INTO circuit_open AS c (provider, family)
    SELECT s.provider, s.family
    FROM (SELECT unnest(@providers::text[]) AS provider, unnest(@families::text[]) AS family) AS s
    ORDER BY s.provider, s.family
    ON CONFLICT (provider, family) DO UPDATE SET seen_at = now()
    RETURNING c.provider, c.family, c.opened_at
), recorded AS MATERIALIZED (
    SELECT house_event_add('', 'switchyard.circuit.opened', concat('circuit/', provider, '/', family), opened_at::text,
        jsonb_build_object('provider', provider, 'family', family, 'opened_at', opened_at)) AS done
    FROM seen
)
SELECT count(*) FROM recorded;

-- name: CloseCircuits :exec
-- CloseCircuits removes the circuits that no replica has seen open for so long, and records an event for each.
WITH gone AS MATERIALIZED (
    DELETE FROM circuit_open AS c WHERE c.seen_at < now() - make_interval(secs => @unseen_seconds::double precision)
    RETURNING c.provider, c.family, c.opened_at
), recorded AS MATERIALIZED (
    SELECT house_event_add('', 'switchyard.circuit.closed', concat('circuit/', provider, '/', family), opened_at::text,
        jsonb_build_object('provider', provider, 'family', family, 'opened_at', opened_at)) AS done
    FROM gone
)
SELECT count(*) FROM recorded;
