-- +goose Up

-- The user whose own token or session has registered a device; empty if a product key or a service did, which only name a
-- user. The secret of a message goes to a device only while this is the device's user: so it does not count once a replica
-- of the release before has registered the device for another one.
ALTER TABLE push_subscription ADD COLUMN verified_user text NOT NULL DEFAULT '';

-- +goose Down

ALTER TABLE push_subscription DROP COLUMN verified_user;
