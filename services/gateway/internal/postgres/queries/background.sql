-- name: InsertBackground :execrows
-- InsertBackground queues a response unless its organization has a number of them already.
INSERT INTO background (response_id, organization_id, owner_id, state, streamed, key_id, sealed, attempts, holder, held_until, created_at)
SELECT @response_id, @organization_id, @owner_id, 'queued', @streamed, @key_id, @sealed, 0, '', @created_at, @created_at
WHERE (SELECT count(*) FROM background AS b WHERE b.organization_id = @organization_id) < @most::int;

-- name: ClaimBackground :many
-- ClaimBackground gives a replica some responses that no replica makes, oldest first, except those of some organizations.
UPDATE background
SET state = 'in_progress', holder = @holder, held_until = @held_until, attempts = attempts + 1
WHERE response_id IN (
    SELECT b.response_id FROM background AS b
    WHERE (b.state = 'queued' OR b.held_until <= @now) AND b.organization_id <> ALL (@full_organizations::text[])
    ORDER BY b.created_at
    LIMIT @count::int
    FOR UPDATE SKIP LOCKED
)
RETURNING response_id, organization_id, owner_id, streamed, key_id, sealed, attempts, (
    SELECT coalesce(max(e.last_number), -1) FROM response_event AS e WHERE e.response_id = background.response_id
)::int AS last_event;

-- name: RenewBackground :many
-- RenewBackground keeps a replica's responses its own, and returns which they still are.
UPDATE background SET held_until = @held_until WHERE holder = @holder RETURNING response_id;

-- name: ReleaseBackground :execrows
-- ReleaseBackground lets another replica make a response. What was not begun is no attempt.
UPDATE background SET state = 'queued', holder = '', held_until = created_at, attempts = attempts - @unbegun::int
WHERE response_id = @response_id AND holder = @holder;

-- name: EndBackground :execrows
-- EndBackground ends what a replica makes.
DELETE FROM background WHERE response_id = @response_id AND holder = @holder;

-- name: CancelBackground :execrows
-- CancelBackground ends a response wherever it is made.
DELETE FROM background WHERE response_id = @response_id AND organization_id = @organization_id;

-- name: BackgroundState :one
SELECT state FROM background WHERE response_id = @response_id AND organization_id = @organization_id;

-- name: ReplaceResponse :execrows
-- ReplaceResponse writes the end of a response that was made in the background.
UPDATE response SET item_ids = @item_ids, key_id = @key_id, sealed = @sealed, size = @size WHERE id = @id;

-- name: InsertResponseEvents :exec
INSERT INTO response_event (response_id, first_number, last_number, key_id, sealed)
VALUES (@response_id, @first_number, @last_number, @key_id, @sealed);

-- name: ResponseEvents :many
-- ResponseEvents returns the events of a response after a number, up to a number of rows.
SELECT first_number, last_number, key_id, sealed
FROM response_event
WHERE response_id = @response_id AND last_number > @after
ORDER BY first_number
LIMIT @count::int;
