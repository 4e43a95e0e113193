-- name: InsertResponse :exec
INSERT INTO response (id, organization_id, owner_id, previous_id, item_ids, key_id, sealed, size, created_at, expires_at)
VALUES (@id, @organization_id, @owner_id, @previous_id, @item_ids, @key_id, @sealed, @size, @created_at, @expires_at);

-- name: ResponseChain :many
-- ResponseChain returns a response and its predecessors, latest first, until a number of them or of their bytes is
-- exceeded. The last of them shows whether others precede it.
WITH RECURSIVE chain AS (
    SELECT r.id, r.previous_id, r.key_id, r.sealed, r.size, r.created_at, r.expires_at, 1 AS turns, r.size::bigint AS bytes
    FROM response AS r
    WHERE r.id = @id AND r.organization_id = @organization_id AND r.owner_id = @owner_id AND r.expires_at > @now
    UNION ALL
    SELECT r.id, r.previous_id, r.key_id, r.sealed, r.size, r.created_at, r.expires_at, c.turns + 1, c.bytes + r.size
    FROM chain AS c
    JOIN response AS r ON r.id = c.previous_id
    WHERE r.organization_id = @organization_id AND r.owner_id = @owner_id AND r.expires_at > @now
        AND c.turns < @most_turns::int AND c.bytes <= @most_bytes::bigint
)
SELECT id, previous_id, key_id, sealed, size, created_at, expires_at
FROM chain
ORDER BY turns;

-- name: ResponsesWithItems :many
-- ResponsesWithItems returns the responses that hold any of some items, up to a number of them.
SELECT id, previous_id, key_id, sealed, size, created_at, expires_at
FROM response
WHERE item_ids && @items::text[] AND organization_id = @organization_id AND owner_id = @owner_id AND expires_at > @now
ORDER BY created_at DESC
LIMIT @count::int;

-- name: DeleteResponse :execrows
DELETE FROM response
WHERE id = @id AND organization_id = @organization_id AND owner_id = @owner_id AND expires_at > @now;

-- name: DropResponses :execrows
-- DropResponses drops a bounded number of expired responses.
DELETE FROM response
WHERE id IN (SELECT r.id FROM response AS r WHERE r.expires_at <= @now ORDER BY r.expires_at LIMIT @count::int FOR UPDATE SKIP LOCKED);

-- name: EraseResponses :execrows
-- EraseResponses erases a bounded number of an organization's responses.
DELETE FROM response
WHERE id IN (
    SELECT r.id FROM response AS r WHERE r.organization_id = @organization_id AND r.created_at <= @before LIMIT @count::int
);
