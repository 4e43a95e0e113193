-- name: TopicVersions :many
SELECT topic, version FROM control_topic;

-- name: MoveTopic :one
UPDATE control_topic SET version = version + 1, changed_at = now() WHERE topic = @topic RETURNING version;
