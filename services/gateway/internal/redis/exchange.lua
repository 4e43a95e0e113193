-- KEYS: replicas (sorted set, by time), reports (hash, by replica).
-- ARGV: replica, its lifetime in ms, channel to notify of a change ('' for none), its reports.
-- Returns each live replica with the age of its reports in ms, a line break, and the reports.
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local life = tonumber(ARGV[2])
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('HSET', KEYS[2], ARGV[1], ARGV[4])
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now - life)) do
  redis.call('ZREM', KEYS[1], gone)
  redis.call('HDEL', KEYS[2], gone)
end
redis.call('PEXPIRE', KEYS[1], life)
redis.call('PEXPIRE', KEYS[2], life)
if ARGV[3] ~= '' then redis.call('PUBLISH', ARGV[3], ARGV[1]) end
local answer = {}
local live = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for i = 1, #live, 2 do
  answer[#answer + 1] = live[i]
  answer[#answer + 1] = string.format('%d\n%s', now - live[i + 1], redis.call('HGET', KEYS[2], live[i]) or '')
end
return answer
