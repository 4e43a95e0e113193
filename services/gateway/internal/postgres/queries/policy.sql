-- name: GetPolicyRelease :one
SELECT hash, version FROM policy_release;

-- name: PutPolicyRelease :exec
UPDATE policy_release SET hash = @hash, released_at = now(), version = @version;
