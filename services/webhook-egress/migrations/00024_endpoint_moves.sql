-- A delivery knows how often its endpoint had moved when it was accepted. Before, the times of both decided whether it was
-- accepted before a move, and replicas with different clocks wrote them. Additive: the previous release doesn't write the
-- numbers, and compares the times.

-- +goose Up

-- How often the URL has got another scheme, host or port.
ALTER TABLE endpoints ADD COLUMN moves integer NOT NULL DEFAULT 0;

-- The endpoint's number at that time; null without an endpoint, and if the previous release accepted the delivery.
ALTER TABLE deliveries ADD COLUMN endpoint_moves integer;

-- +goose StatementBegin
CREATE FUNCTION count_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.moves := OLD.moves + 1;
    RETURN NEW;
END
$$;
-- +goose StatementEnd

-- For moves by the previous release.
CREATE TRIGGER endpoint_moved BEFORE UPDATE OF moved_at ON endpoints
    FOR EACH ROW WHEN (NEW.moved_at IS DISTINCT FROM OLD.moved_at AND NEW.moves = OLD.moves)
    EXECUTE FUNCTION count_move();

-- +goose Down

DROP TRIGGER endpoint_moved ON endpoints;
DROP FUNCTION count_move();
ALTER TABLE deliveries DROP COLUMN endpoint_moves;
ALTER TABLE endpoints DROP COLUMN moves;
