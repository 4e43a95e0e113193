-- Stores a value unless a later epoch has begun.
-- KEYS: the organization's epoch, the value's key. ARGV: the value's epoch, the value, its lifetime in milliseconds.
local newest = tonumber(redis.call('GET', KEYS[1]) or '0')
if newest > tonumber(ARGV[1]) then
  return 0
end
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
return 1
