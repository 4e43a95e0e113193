-- Keeps the state of a session, until it expires: KEYS[1] are those of its organization by when they expire, ARGV the
-- session, its score, how many are kept, for how long in seconds, and how many scores a second has. Those that have
-- expired are dropped. Returns 1, or 0 if there are too many.
local now = tonumber(redis.call('TIME')[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('(%.0f', now * tonumber(ARGV[5])))
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) and redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[3]) then
  return 0
end
redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
redis.call('EXPIRE', KEYS[1], ARGV[4])
return 1
