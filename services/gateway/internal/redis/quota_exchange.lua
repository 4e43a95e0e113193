-- Announces a replica and applies its report, once per sequence number.
-- KEYS: epoch (hash), members (sorted set, by last exchange), expected (set), replayed (set), sequences (hash), then the
-- keys that the report names by index. ARGV: the report as JSON.
-- Returns the epoch, whether its books are trusted, seconds and microseconds of the server's time, and the members.
local r = cjson.decode(ARGV[1])
local now, slot, time = clock()
local epoch = redis.call('HMGET', KEYS[1], 'id', 'trusted', 'beat', 'started', 'run')
-- A server that was restarted may come back with an old copy of the books.
local info = redis.pcall('INFO', 'server')
local run = type(info) == 'string' and string.match(info, 'run_id:(%w+)') or ''
local id, trusted, started = epoch[1], epoch[2] == '1', tonumber(epoch[4] or now)
if not id or epoch[5] ~= run or now - (epoch[3] or 0) > 3000 then
  id, trusted, started = r.candidate, false, now
  redis.call('DEL', unpack(KEYS, 1, 5))
  redis.call('HSET', KEYS[1], 'id', id, 'started', now, 'run', run)
end
redis.call('HSET', KEYS[1], 'beat', now)
redis.call('ZADD', KEYS[2], now, r.replica)
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - 5000)

-- replay returns what a replayed entry adds to its slot: the slot holds the sum of what replicas granted, and no less
-- than one of them knows.
local function replay(key, e)
  local names = { 't' .. e.slot, 'n' .. e.slot, 'kt' .. e.slot, 'kn' .. e.slot }
  local v = redis.call('HMGET', key, unpack(names))
  for i = 1, 4 do v[i] = tonumber(v[i] or 0) end
  local tokens, requests = math.max(v[1], v[3]), math.max(v[2], v[4])
  v = { v[1] + e.tokens, v[2] + e.requests, math.max(v[3], e.known_tokens), math.max(v[4], e.known_requests) }
  redis.call('HSET', key, names[1], v[1], names[2], v[2], names[3], v[3], names[4], v[4])
  redis.call('PEXPIRE', key, KEEP)
  return math.max(v[1], v[3]) - tokens, math.max(v[2], v[4]) - requests
end

local function apply()
  local subjects = {}
  for _, e in ipairs(r.entries or {}) do
    subjects[e.key] = subjects[e.key] or open(KEYS[e.key], slot, now)
    local tokens, requests = e.tokens, e.requests
    if e.replay > 0 then
      tokens, requests = replay(KEYS[e.replay], e)
    end
    add(subjects[e.key], math.min(e.slot, slot), tokens, requests)
  end
  for _, h in ipairs(r.holds or {}) do
    if h['for'] > 0 then
      redis.call('ZADD', KEYS[h.key], now + h['for'], h.id)
      redis.call('PEXPIRE', KEYS[h.key], KEEP)
    else
      redis.call('ZREM', KEYS[h.key], h.id)
    end
  end
  for _, n in ipairs(r.news or {}) do
    local s = open(KEYS[n.key], slot, now)
    if n.blocked > 0 then
      s.blocked = math.max(s.blocked, now + math.min(n.blocked, 3600000))
    end
    if n.cut and now - s.cut >= 10000 then
      s.factor = math.max(0.1, 0.9 * factor(s, now))
      s.cut = now
    end
    if n.reset > 0 and n.unseen > unseen(s, now) then
      s.unseen, s.from, s.till = n.unseen, now, now + math.min(n.reset, SLOTS * 1000)
    end
    redis.call('HSET', s.key, 'newest', s.newest, 'tokens', s.tokens, 'requests', s.requests, 'blocked', s.blocked, 'cut', s.cut,
      'factor', string.format('%.17g', s.factor), 'unseen', s.unseen, 'from', s.from, 'till', s.till)
    redis.call('PEXPIRE', s.key, KEEP + math.max(0, s.blocked - now))
  end
  for _, s in ipairs(r.served or {}) do
    if redis.call('ZSCORE', KEYS[s.key], s.organization) then
      redis.call('ZINCRBY', KEYS[s.key], string.format('%.17g', s.cost), s.organization)
    end
  end
  for _, key in ipairs(r.queues or {}) do
    redis.call('HDEL', KEYS[key], 'w:' .. r.replica)
  end
end

if r.epoch == id then
  if r.sequence > tonumber(redis.call('HGET', KEYS[5], r.replica) or 0) then
    redis.call('HSET', KEYS[5], r.replica, r.sequence)
    apply()
  end
  if r.replayed then redis.call('SADD', KEYS[4], r.replica) end
end
if not trusted then
  redis.call('SADD', KEYS[3], r.replica, unpack(r.members or {}))
  trusted = now - started >= SLOTS * 1000
    or (now - started >= 1500 and #redis.call('SDIFF', KEYS[3], KEYS[4]) == 0)
  redis.call('HSET', KEYS[1], 'trusted', trusted and '1' or '0')
end
for i = 1, 5 do redis.call('PEXPIRE', KEYS[i], KEEP) end
local members = redis.call('ZRANGE', KEYS[2], 0, -1)
return { id, trusted and 1 or 0, time[1], time[2], unpack(members) }
