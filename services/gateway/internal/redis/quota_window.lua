-- The books of one subject, as package quota decides on them; the conformance suite of quota.Store holds both to it.
-- A subject is a hash: its newest slot, the sums of the window, tokens (t<slot>) and requests (n<slot>) of each slot,
-- and what is known from outside. Times are milliseconds.
local SLOTS, KEEP = 61, 120000
local NEVER = (SLOTS + 1) * 1000

local function clock()
  local t = redis.call('TIME')
  return t[1] * 1000 + math.floor(t[2] / 1000), tonumber(t[1]), t
end

-- open reads a subject and lets the slots age out that are too old.
local function open(key, slot, now)
  local v = redis.call('HMGET', key, 'newest', 'tokens', 'requests', 'blocked', 'factor', 'cut', 'unseen', 'from', 'till')
  local s = {
    key = key, now = now, newest = tonumber(v[1] or slot), tokens = tonumber(v[2] or 0), requests = tonumber(v[3] or 0),
    blocked = tonumber(v[4] or 0), factor = tonumber(v[5] or 1), cut = tonumber(v[6] or 0),
    unseen = tonumber(v[7] or 0), from = tonumber(v[8] or 0), till = tonumber(v[9] or 0),
  }
  if slot <= s.newest then return s end
  local names = {}
  for i = s.newest - SLOTS + 1, math.min(s.newest, slot - SLOTS) do
    names[#names + 1] = 't' .. i
    names[#names + 1] = 'n' .. i
  end
  s.newest = slot
  if #names > 0 then
    local old = redis.call('HMGET', key, unpack(names))
    for i = 1, #old, 2 do
      s.tokens = s.tokens - (old[i] or 0)
      s.requests = s.requests - (old[i + 1] or 0)
    end
    redis.call('HDEL', key, unpack(names))
    redis.call('HSET', key, 'newest', slot, 'tokens', s.tokens, 'requests', s.requests)
  end
  return s
end

-- add adds to a slot, unless it has aged out.
local function add(s, slot, tokens, requests)
  if slot <= s.newest - SLOTS then return end
  s.tokens = s.tokens + tokens
  s.requests = s.requests + requests
  redis.call('HINCRBY', s.key, 't' .. slot, tokens)
  redis.call('HINCRBY', s.key, 'n' .. slot, requests)
  redis.call('HSET', s.key, 'newest', s.newest, 'tokens', s.tokens, 'requests', s.requests)
  redis.call('PEXPIRE', s.key, KEEP + math.max(0, s.blocked - s.now))
end

-- outlook returns tokens and requests that are left of the window after 0, 1, … seconds.
local function outlook(s)
  local names = {}
  for i = s.newest - SLOTS + 1, s.newest do
    names[#names + 1] = 't' .. i
    names[#names + 1] = 'n' .. i
  end
  local v = redis.call('HMGET', s.key, unpack(names))
  local tokens, requests = { [0] = s.tokens }, { [0] = s.requests }
  for i = 1, SLOTS do
    tokens[i] = tokens[i - 1] - (v[2 * i - 1] or 0)
    requests[i] = requests[i - 1] - (v[2 * i] or 0)
  end
  return tokens, requests, tonumber(v[2 * SLOTS - 1] or 0), tonumber(v[2 * SLOTS - 3] or 0)
end

local function factor(s, now)
  if s.cut == 0 then return 1 end
  return math.min(1, s.factor + 0.01 * (now - s.cut) / 10000)
end

local function believed(s, limit, now)
  if s.cut == 0 then return limit end
  return math.max(1, math.floor(limit * factor(s, now)))
end

local function unseen(s, now)
  local left, all = s.till - now, s.till - s.from
  if left <= 0 or all <= 0 then return 0 end
  return math.floor(s.unseen * math.min(1, left / all))
end

-- pause returns how long a caller waits that is granted steadily.
local function pause(s, limit, now)
  if s.tokens * 2 <= limit then return 0 end
  local left, _, current, last = outlook(s)
  local pace = limit
  for i = 1, SLOTS do
    pace = math.min(pace, (limit - left[i]) / i)
  end
  pace, last = math.max(0, pace * 1.2), math.max(0, last)
  local rest = 1 - (now % 1000) / 1000
  local over = current + last * rest - pace
  if over < 0 then return 0 end
  if over < last * rest then return math.max(20, math.ceil(over / last * 1000)) end
  return math.max(20, math.ceil(rest * 1000))
end

-- check returns the time until tokens and requests fit the limits (0 for none), and the cause if that is not now.
local function check(s, limitTokens, limitRequests, tokens, requests, paced, now)
  if s.blocked > now then return s.blocked - now, 'vendor' end
  local roomTokens, roomRequests = believed(s, limitTokens, now), believed(s, limitRequests, now)
  local function holds(usedTokens, usedRequests, others)
    return (limitTokens == 0 or usedTokens + others + tokens <= roomTokens)
      and (limitRequests == 0 or usedRequests + requests <= roomRequests)
  end
  if not holds(s.tokens, s.requests, unseen(s, now)) then
    local left, calls = outlook(s)
    for i = 1, SLOTS do
      if holds(left[i], calls[i], unseen(s, now + i * 1000)) then
        return (math.floor(now / 1000) + i) * 1000 - now, 'limit'
      end
    end
    return NEVER, 'limit'
  end
  if paced and limitTokens > 0 then
    local wait = pause(s, roomTokens, now)
    if wait > 0 then return wait, 'pace' end
  end
  return 0, ''
end

-- least returns the least that was served to an organization that waits on a live replica; what was reached without any.
local function least(queue, members, now, except)
  local found, reached = nil, 0
  local all = redis.call('HGETALL', queue)
  for i = 1, #all, 2 do
    if all[i] == 'reached' then
      reached = tonumber(all[i + 1])
    else
      local replica = string.sub(all[i], 3)
      local served, till = string.match(all[i + 1], '^(%S+) (%S+)$')
      local seen = tonumber(redis.call('ZSCORE', members, replica) or 0)
      if replica ~= except and tonumber(till) > now and now - seen < 5000 and (not found or tonumber(served) < found) then
        found = tonumber(served)
      end
    end
  end
  return found, reached
end
