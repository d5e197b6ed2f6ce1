-- Promotes due jobs, then locks the best waiting ones.
--
-- ARGV: now, queue, token, lock_for, limit, then the asked names, each once.
--
-- Answers: now; the next run time, or nil; whether jobs are left waiting after
-- a repeated claim; the ids; their records; their live texts; then for each job
-- that was touched before: its place (from 1), its progress, its flow.

local queue, token = ARGV[2], ARGV[3]
local lock_expires_at, limit = later(tonumber(ARGV[4])), tonumber(ARGV[5])
local waiting, delayed = {}, {}
for i = 6, #ARGV do
  local group = queue .. '\0' .. ARGV[i]
  waiting[#waiting + 1] = P .. ':waiting:' .. group
  delayed[#delayed + 1] = P .. ':delayed:' .. group
end

-- Reads the first `most` of several ordered sets together: by score, then member.
-- `read(key, offset, count)` answers members and scores in turn.
local function merged(keys, most, read)
  local ahead = math.ceil(most / #keys) + 1
  local streams, taken = {}, {}
  local function refill(stream)
    stream.list = read(stream.key, stream.offset, ahead)
    stream.offset = stream.offset + #stream.list / 2
    stream.at = 1
    stream.score = tonumber(stream.list[2])
  end
  for _, key in ipairs(keys) do
    local stream = { key = key, offset = 0 }
    refill(stream)
    if stream.score then streams[#streams + 1] = stream end
  end
  while #taken < most and #streams > 0 do
    local best, place = streams[1], 1
    for i = 2, #streams do
      local other = streams[i]
      local sooner = other.score < best.score
        or other.score == best.score and before(other.list[other.at], best.list[best.at])
      if sooner then best, place = other, i end
    end
    taken[#taken + 1] = { key = best.key, member = best.list[best.at], score = best.score }
    best.at = best.at + 2
    if best.at > #best.list then
      refill(best)
    else
      best.score = tonumber(best.list[best.at + 1])
    end
    if not best.score then table.remove(streams, place) end
  end
  return taken
end

local function head(key)
  return tonumber(call('ZRANGE', key, 0, 0, 'WITHSCORES')[2])
end

local function earliest(keys)
  local first
  for _, key in ipairs(keys) do
    local at = head(key)
    if at and (not first or at < first) then first = at end
  end
  return first
end

local function any_waiting()
  return #waiting > 0 and call('EXISTS', unpack(waiting)) > 0
end

-- The answer about jobs that are locked now. `ids` may be empty.
local function answer(next_run_at, left, ids, records, lives, touched)
  local extras = {}
  if #touched > 0 then
    local touched_ids = {}
    for i, place in ipairs(touched) do touched_ids[i] = ids[place] end
    local progress = call('HMGET', P .. ':progress', unpack(touched_ids))
    local flows = call('HMGET', P .. ':flows', unpack(touched_ids))
    for i, place in ipairs(touched) do
      extras[i * 3 - 2], extras[i * 3 - 1], extras[i * 3] = place, progress[i], flows[i]
    end
  end
  return { now, next_run_at or false, left and 1 or 0, ids, records, lives, extras }
end

local function at_least_now(instant) return instant and math.max(instant, now) end

-- ---- a claim that is repeated with its token

local held = call('GET', P .. ':claim:' .. token)
if held then
  local all, at = {}, 1
  while at <= #held do all[#all + 1], at = unpack_struct('>Hc0', held, at) end
  local ids, lives, touched, keys = {}, {}, {}, {}
  local texts = #all > 0 and call('HMGET', P .. ':live', unpack(all)) or {}
  for i, id in ipairs(all) do
    local live = read_live(id, texts[i])
    if live and live.state == 'a' and live.token == token then
      ids[#ids + 1], lives[#lives + 1], touched[#touched + 1] = id, texts[i], #ids + 1
      keys[#keys + 1] = P .. ':job:' .. id
      zadd(P .. ':active', lock_expires_at, id)
    end
  end
  flush()
  local records = #keys > 0 and call('MGET', unpack(keys)) or {}
  return answer(at_least_now(earliest(delayed)), any_waiting(), ids, records, lives, touched)
end

-- ---- promotion

local due, next_delayed = {}, nil
for _, key in ipairs(delayed) do
  local at = head(key)
  if at and at <= now then
    due[#due + 1] = key
  elseif at and (not next_delayed or at < next_delayed) then
    next_delayed = at
  end
end

local promoted = false
if #due > 0 then
  local jobs = merged(due, PAGE, function(key, offset, count)
    return call('ZRANGE', key, '-inf', now, 'BYSCORE', 'LIMIT', offset, count, 'WITHSCORES')
  end)
  local ids = {}
  for i, job in ipairs(jobs) do ids[i] = sub(job.member, 11) end
  local texts = call('HMGET', P .. ':live', unpack(ids))
  local plain_waiting = P .. ':waiting:'
  for i, job in ipairs(jobs) do
    local group = sub(job.key, #P + 10)
    zrem(job.key, job.member)
    zadd(plain_waiting .. group, 2147483648 - unpack_struct('>I4', job.member, 7), sub(job.member, 1, 6) .. ids[i])
    hset(P .. ':live', ids[i], 'w' .. sub(texts[i] or '', 2))
  end
  count(queue, 'd', -#jobs)
  count(queue, 'w', #jobs)
  flush()
  promoted = true
  local head_of_due = earliest(due)
  if head_of_due and (not next_delayed or head_of_due < next_delayed) then next_delayed = head_of_due end
end

-- ---- how many the queue's settings allow

local room, more_from = limit, nil
local settings = read_queue(queue)

-- Counts a start if one is allowed now.
local function start(s)
  local ahead = s.tat_ms - now
  if ahead > s.lead_ms or ahead == s.lead_ms and s.tat_us > s.lead_us then return false end
  if ahead < 0 then s.tat_ms, s.tat_us = now, 0 end
  s.tat_us = s.tat_us + s.interval_us
  s.tat_ms = s.tat_ms + s.interval_ms + math.floor(s.tat_us / 1000)
  s.tat_us = s.tat_us % 1000
  return true
end

local function next_start(s)
  local us = s.tat_us - s.lead_us
  return math.max(0, s.tat_ms - s.lead_ms + math.ceil(us / 1000))
end

if settings then
  if settings.paused then
    room = 0
  else
    if settings.max_active then
      local active = tonumber(call('HGET', P .. ':counts', queue .. '\0a') or 0)
      room = math.max(0, math.min(room, settings.max_active - active))
    end
    if settings.count > 0 then
      local ahead = { tat_ms = settings.tat_ms, tat_us = settings.tat_us, lead_ms = settings.lead_ms,
        lead_us = settings.lead_us, interval_ms = settings.interval_ms, interval_us = settings.interval_us }
      local allowed = 0
      while allowed < room and start(ahead) do allowed = allowed + 1 end
      if allowed < room then more_from = next_start(ahead) end
      room = allowed
    end
  end
end

-- ---- locking

local taken = {}
if room > 0 and #waiting == 1 then
  local popped = call('ZPOPMIN', waiting[1], room)
  for i = 1, #popped, 2 do
    taken[#taken + 1] = { key = waiting[1], member = popped[i], score = popped[i + 1] }
  end
elseif room > 0 and #waiting > 1 then
  taken = merged(waiting, room, function(key, offset, count)
    return call('ZRANGE', key, offset, offset + count - 1, 'WITHSCORES')
  end)
  for _, job in ipairs(taken) do zrem(job.key, job.member) end
end

local ids, keys = {}, {}
for i, job in ipairs(taken) do
  local id = sub(job.member, 7)
  ids[i] = id
  keys[i] = P .. ':job:' .. id
end
local records, texts = {}, {}
if #ids > 0 then
  records = call('MGET', unpack(keys))
  texts = call('HMGET', P .. ':live', unpack(ids))
end

local locked, locked_records, lives, touched, remembered = {}, {}, {}, {}, {}
local fresh_tail = pack('>I6I4I4I4BHc0H', now, 0, 0, 0, 0, #token, token, 0)

-- Where the kind and what follows it end in a record; nil if it cannot be.
local function end_of_head(record)
  local length = #record
  if length < 28 then return nil end
  local extra = 27 + byte(record, 25) * 256 + byte(record, 26)
  if length < extra + 1 then return nil end
  local last = extra + 1 + byte(record, extra) * 256 + byte(record, extra + 1)
  return last <= length and last or nil
end

-- The head of a job whose record is beyond reading: what its place says.
local function head_by_place(job)
  local name = sub(job.key, #P + 11 + #queue)
  local kind = pack('>I4Hc0Hc0B', 2147483648 - job.score, #queue, queue, #name, name, 0)
  return pack('>Hc0H', #kind, kind, 0)
end

for i, job in ipairs(taken) do
  local record = records[i]
  if not record then
    -- Its record is gone: so is the job.
    hdel(P .. ':live', ids[i])
  else
    local n = #locked + 1
    local live = read_live(ids[i], texts[i])
    if live then
      live.state, live.token, live.processed_at = 'a', token, now
      lives[n] = live_text(live)
      touched[#touched + 1] = n
    else
      local last = end_of_head(record)
      local run_at = last and sub(record, 13, 18) or pack('>I6', now)
      lives[n] = 'a' .. sub(job.member, 1, 6) .. run_at .. fresh_tail
        .. (last and sub(record, 25, last) or head_by_place(job))
    end
    locked[n], locked_records[n] = ids[i], record
    zadd(P .. ':active', lock_expires_at, ids[i])
    hset(P .. ':live', ids[i], lives[n])
    remembered[n] = pack('>Hc0', #ids[i], ids[i])
  end
end
count(queue, 'w', -#taken)
count(queue, 'a', #locked)
if settings and settings.count > 0 and #locked > 0 then
  for _ = 1, #locked do start(settings) end
  write_queue(queue, settings)
end
flush()
-- A token is remembered as long as its claim may be repeated, by the server's
-- own clock.
call('SET', P .. ':claim:' .. token, table.concat(remembered), 'PX', ARGV[4] + 60000)
local next_run_at = at_least_now(next_delayed)
if (promoted or more_from) and any_waiting() then
  if promoted then call('PUBLISH', P .. ':wake', 'q' .. queue) end
  if more_from and (not next_run_at or more_from < next_run_at) then next_run_at = more_from end
end
return answer(next_run_at, false, locked, locked_records, lives, touched)
