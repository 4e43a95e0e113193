-- name: AddRejectedKeys :exec
-- AddRejectedKeys records an event for each key that a push service refuses, once a day.
WITH recorded AS MATERIALIZED (
    SELECT house_event_add('', 'switchyard.push_key.rejected', 'push_service/' || r.push_service,
        concat_ws(' ', r.key_id, (now() AT TIME ZONE 'UTC')::date),
        jsonb_build_object('push_service', r.push_service, 'key_id', r.key_id, 'status', r.status, 'rejected_at', now())) AS done
    FROM (SELECT unnest(@push_services::text[]) AS push_service, unnest(@key_ids::text[]) AS key_id, unnest(@statuses::integer[]) AS status) AS r
    ORDER BY r.push_service, r.key_id
)
SELECT count(*) FROM recorded;
