-- name: CacheEpoch :one
-- CacheEpoch returns how often an organization's cached answers were purged.
SELECT coalesce((SELECT epoch FROM cache_epoch WHERE organization_id = @organization_id), 0)::bigint AS epoch;

-- name: BumpCacheEpoch :one
-- BumpCacheEpoch ends the epoch of an organization: earlier cached answers do not belong to the new one.
INSERT INTO cache_epoch (organization_id, epoch)
VALUES (@organization_id, 1)
ON CONFLICT (organization_id) DO UPDATE SET epoch = cache_epoch.epoch + 1, purged_at = now()
RETURNING epoch, purged_at;
