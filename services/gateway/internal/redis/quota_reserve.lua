-- Books the first alternative that fits, or nothing.
-- KEYS: epoch (hash), members (sorted set, by last exchange), served (sorted set) and waiting (hash) of the queue, then
-- for each subject its hash and its calls in flight (sorted set, by end). ARGV: the request as JSON.
-- Returns seconds and microseconds of the server's time, and the answer as JSON; nothing for other or incomplete books.
local q = cjson.decode(ARGV[1])
local now, slot, time = clock()
local epoch = redis.call('HMGET', KEYS[1], 'id', 'trusted', 'beat')
if epoch[1] ~= q.epoch or epoch[2] ~= '1' or now - (epoch[3] or 0) > 3000 then return {} end

local place, members, ranking, waiting = q.place, KEYS[2], KEYS[3], KEYS[4]
local answer = { alternative = -1, served = 0, reached = 0 }
local subjects = {}

local function subject(i)
  subjects[i] = subjects[i] or open(KEYS[3 + 2 * i], slot, now)
  return subjects[i]
end

local function reply()
  return { time[1], time[2], cjson.encode(answer) }
end

-- announce keeps the caller's place before those of other replicas.
local function announce(served, wait)
  redis.call('HSET', waiting, 'w:' .. q.replica, string.format('%.17g %.17g', served, now + math.min(wait, SLOTS * 1000) + 1500))
  redis.call('PEXPIRE', waiting, KEEP)
end

if place then
  local known = redis.call('ZSCORE', ranking, place.organization)
  answer.served = tonumber(known or place.served)
  if place.joins then
    local first, reached = least(waiting, members, now)
    answer.served = math.max(answer.served, first or reached)
  end
  local first, reached = least(waiting, members, now, q.replica)
  answer.reached = reached
  if first and first + place.slack < answer.served then
    answer.short = { { cause = 'order', booking = -1, wait = 100 } }
    if place.waits then announce(answer.served, 100) end
    return reply()
  end
end

-- short returns the longest shortage of an alternative.
local function short(bookings)
  local longest = { wait = 0 }
  for i, b in ipairs(bookings) do
    local s = subject(b.subject)
    local wait, cause = check(s, b.limit_tokens, b.limit_requests, b.tokens, 1, b.steady, now)
    if wait == 0 and b.concurrent > 0 then
      local holds = KEYS[4 + 2 * b.subject]
      redis.call('ZREMRANGEBYSCORE', holds, '-inf', now)
      if redis.call('ZCARD', holds) >= b.concurrent then
        wait, cause = 250, 'concurrent'
      end
    end
    if wait > longest.wait then longest = { cause = cause, booking = i - 1, wait = wait } end
  end
  return longest
end

local function book(bookings)
  local leases = {}
  for i, b in ipairs(bookings) do
    local s = subject(b.subject)
    add(s, slot, b.tokens, 1)
    leases[i] = 0
    if b.lease_tokens + b.lease_requests > 0
      and check(s, b.limit_tokens, b.limit_requests, b.lease_tokens, b.lease_requests, b.steady, now) == 0 then
      add(s, slot, b.lease_tokens, b.lease_requests)
      leases[i] = 1
    end
    if b.concurrent > 0 then
      local holds = KEYS[4 + 2 * b.subject]
      redis.call('ZADD', holds, now + q.hold, q.id)
      redis.call('PEXPIRE', holds, KEEP)
    end
  end
  return leases
end

-- serve charges the grant to the caller's organization.
local function serve()
  answer.reached = math.max(answer.reached, answer.served)
  answer.served = answer.served + place.cost
  redis.call('ZADD', ranking, string.format('%.17g', answer.served), place.organization)
  redis.call('ZREMRANGEBYRANK', ranking, 0, -10001)
  redis.call('PEXPIRE', ranking, KEEP)
  redis.call('HSET', waiting, 'reached', string.format('%.17g', answer.reached))
  redis.call('HDEL', waiting, 'w:' .. q.replica)
  redis.call('PEXPIRE', waiting, KEEP)
  if place.next >= 0 then announce(place.next, 0) end
end

-- looked adds what is booked of the subjects that were looked at, as tokens and requests in place.
local function looked(count)
  local all = {}
  for i = 1, count do
    local used = {}
    for _, b in ipairs(q.alternatives[i]) do
      local s = subject(b.subject)
      used[#used + 1] = s.tokens
      used[#used + 1] = s.requests
    end
    all[i] = #used > 0 and used or cjson.null
  end
  if count > 0 then answer.used = all end
end

local shortages = {}
for i, bookings in ipairs(q.alternatives) do
  local s = short(bookings)
  if s.wait == 0 then
    answer.alternative = i - 1
    local leases = book(bookings)
    if #leases > 0 then answer.leases = leases end
    looked(i)
    if place then serve() end
    return reply()
  end
  shortages[i] = s
end
answer.short = shortages
looked(#q.alternatives)
if place and place.waits then
  local longest = -1
  for i, s in ipairs(shortages) do
    if not q.alternatives[i][s.booking + 1].own and s.wait <= SLOTS * 1000 then longest = math.max(longest, s.wait) end
  end
  if longest >= 0 then announce(answer.served, longest) end
end
return reply()
