-- name: InsertFile :execrows
-- InsertFile begins a file unless its organization's files would have too many bytes or be too many with it.
INSERT INTO file (id, organization_id, owner_id, purpose, complete, key_id, sealed_name, size, created_at, expires_at)
SELECT @id, @organization_id, @owner_id, @purpose, false, @key_id, @sealed_name, @size::bigint, @created_at, @expires_at
WHERE (
    SELECT count(*) < @most_files::int AND coalesce(sum(f.size), 0) + @size::bigint <= @most_bytes::bigint
    FROM file AS f WHERE f.organization_id = @organization_id AND f.expires_at > @created_at
);

-- name: ReplaceFile :execrows
-- ReplaceFile begins a file of a batch job, which may have been begun before. One that is complete stays as it is.
INSERT INTO file (id, organization_id, owner_id, purpose, complete, key_id, sealed_name, size, created_at, expires_at)
VALUES (@id, @organization_id, @owner_id, @purpose, false, @key_id, @sealed_name, 0, @created_at, @expires_at)
ON CONFLICT (id) DO UPDATE SET expires_at = excluded.expires_at WHERE NOT file.complete;

-- name: DeleteFilePieces :exec
DELETE FROM file_piece WHERE file_id = @file_id;

-- name: InsertFilePiece :execrows
-- InsertFilePiece adds to a file, unless that is complete.
INSERT INTO file_piece (file_id, number, key_id, sealed)
SELECT f.id, @number, @key_id, @sealed FROM file AS f WHERE f.id = @file_id AND NOT f.complete;

-- name: CompleteFile :execrows
UPDATE file SET complete = true, size = @size, expires_at = @expires_at WHERE id = @id;

-- name: GetFile :one
SELECT id, organization_id, owner_id, purpose, key_id, sealed_name, size, created_at, expires_at
FROM file
WHERE id = @id AND organization_id = @organization_id AND owner_id = @owner_id AND complete AND expires_at > @now;

-- name: ListFiles :many
-- ListFiles returns a page of files, in the order of their creation or against it, after one of them.
SELECT f.id, f.organization_id, f.owner_id, f.purpose, f.key_id, f.sealed_name, f.size, f.created_at, f.expires_at
FROM file AS f
WHERE f.organization_id = @organization_id AND f.owner_id = @owner_id AND f.complete AND f.expires_at > @now
    AND f.purpose = ANY (@purposes::text[])
    AND (@after::text = '' OR CASE WHEN @ascending::boolean
        THEN (f.created_at, f.id) > (SELECT a.created_at, a.id FROM file AS a WHERE a.id = @after AND a.organization_id = @organization_id)
        ELSE (f.created_at, f.id) < (SELECT a.created_at, a.id FROM file AS a WHERE a.id = @after AND a.organization_id = @organization_id)
    END)
ORDER BY
    CASE WHEN @ascending THEN f.created_at END, CASE WHEN @ascending THEN f.id END,
    CASE WHEN NOT @ascending THEN f.created_at END DESC, CASE WHEN NOT @ascending THEN f.id END DESC
LIMIT @count::int;

-- name: FilePieces :many
-- FilePieces returns some pieces of a file from a number on.
SELECT number, key_id, sealed
FROM file_piece
WHERE file_id = @file_id AND number >= @from_number
ORDER BY number
LIMIT @count::int;

-- name: DeleteFile :execrows
DELETE FROM file
WHERE id = @id AND organization_id = @organization_id AND owner_id = @owner_id AND complete AND expires_at > @now;

-- name: DropFiles :execrows
-- DropFiles drops a bounded number of expired files.
DELETE FROM file
WHERE id IN (SELECT f.id FROM file AS f WHERE f.expires_at <= @now ORDER BY f.expires_at LIMIT @count::int FOR UPDATE SKIP LOCKED);

-- name: EraseFiles :execrows
-- EraseFiles erases a bounded number of an organization's files.
DELETE FROM file
WHERE id IN (
    SELECT f.id FROM file AS f WHERE f.organization_id = @organization_id AND f.created_at <= @before LIMIT @count::int
);
