-- name: AddHouseEvents :exec
-- AddHouseEvents records events unless they are recorded.
INSERT INTO house_event (event_id, organization_id, type, subject, data, keep_until)
SELECT unnest(@event_ids::text[]), unnest(@organizations::text[]), unnest(@types::text[]), unnest(@subjects::text[]),
    unnest(@data::jsonb[]), unnest(@kept::timestamptz[])
ON CONFLICT (event_id) DO NOTHING;
