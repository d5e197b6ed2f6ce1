-- Stands before every script. KEYS[1] is the store's hash tag, which begins
-- every key; ARGV[1] is the time in milliseconds, or empty for the server's.
--
-- Formats and keys: docs/decisions/0011-redis-layout.md.

local P = KEYS[1]
local NONE = 281474976710655
local LAST_INSTANT = 253402300799999
local MOST_COUNTED = 4294967295
local PAGE = 250

local call = redis.call
local pack, unpack_struct = struct.pack, struct.unpack
local sub, byte = string.sub, string.byte

local now = tonumber(ARGV[1])
if not now then
  local time = call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end

local function later(millis)
  return math.min(now + millis, LAST_INSTANT)
end

-- The last instant from which on an age has passed by now; below zero if there
-- is none. An age that reaches past the end of time ends with it.
local function an_age_ago(age)
  return now >= LAST_INSTANT and LAST_INSTANT or now - age
end

local function one_more(count)
  return math.min(count + 1, MOST_COUNTED)
end

-- Arrival numbers, reserved for the whole script in one call.

local next_seq, last_reserved = 0, 0

local function reserve(count)
  last_reserved = call('INCRBY', P .. ':seq', count)
  next_seq = last_reserved - count
end

local function draw_seq()
  if next_seq >= last_reserved then reserve(1) end
  next_seq = next_seq + 1
  return pack('>I6', next_seq)
end

-- Writes are gathered and made together: a batch is a handful of calls, and a
-- script that fails on what it reads has written nothing.

local sets, pushes = {}, {}
local dels, zrems, hdels, srems = {}, {}, {}, {}
local zadds, hsets, sadds = {}, {}, {}
local counted, woken, ended = {}, {}, {}

local function into(lists, key)
  local list = lists[key]
  if not list then
    list = {}
    lists[key] = list
  end
  return list
end

local function set(key, value)
  local n = #sets
  sets[n + 1] = key
  sets[n + 2] = value
end

local function del(key) dels[#dels + 1] = key end

local function pair(lists, key, one, other)
  local list = into(lists, key)
  local n = #list
  list[n + 1] = one
  list[n + 2] = other
end

local function zadd(key, score, member) pair(zadds, key, score, member) end
local function hset(key, field, value) pair(hsets, key, field, value) end

local function zrem(key, member)
  local list = into(zrems, key)
  list[#list + 1] = member
end

local function hdel(key, field)
  local list = into(hdels, key)
  list[#list + 1] = field
end

local function sadd(key, member)
  local list = into(sadds, key)
  list[#list + 1] = member
end

local function srem(key, member)
  local list = into(srems, key)
  list[#list + 1] = member
end

local function push(key, value) pair(pushes, 1, key, value) end

local function count(queue, state, by)
  local field = queue .. '\0' .. state
  counted[field] = (counted[field] or 0) + by
end

local function wake(queue) woken[queue] = true end
local function announce(id) ended[#ended + 1] = id end

-- Lua hands at most some 8,000 values to one call.
local MOST_ARGUMENTS = 4000

local function in_calls(command, key, list)
  local n = #list
  for first = 1, n, MOST_ARGUMENTS do
    local last = math.min(first + MOST_ARGUMENTS - 1, n)
    if key then
      call(command, key, unpack(list, first, last))
    else
      call(command, unpack(list, first, last))
    end
  end
end

local function of_each(command, lists)
  for key, list in pairs(lists) do in_calls(command, key, list) end
end

local function flush()
  if #dels > 0 then in_calls('DEL', nil, dels) dels = {} end
  if next(hdels) then of_each('HDEL', hdels) hdels = {} end
  if next(zrems) then of_each('ZREM', zrems) zrems = {} end
  if next(srems) then of_each('SREM', srems) srems = {} end
  if #sets > 0 then in_calls('MSET', nil, sets) sets = {} end
  if next(hsets) then of_each('HSET', hsets) hsets = {} end
  if next(zadds) then of_each('ZADD', zadds) zadds = {} end
  if next(sadds) then of_each('SADD', sadds) sadds = {} end
  local pushed = pushes[1]
  if pushed then
    for i = 1, #pushed, 2 do
      -- The newest 200 entries of a ledger are kept.
      if call('RPUSH', pushed[i], pushed[i + 1]) > 200 then call('LPOP', pushed[i]) end
    end
    pushes = {}
  end
  for field, by in pairs(counted) do
    if by ~= 0 and call('HINCRBY', P .. ':counts', field, by) == 0 then
      call('HDEL', P .. ':counts', field)
    end
  end
  counted = {}
  for queue in pairs(woken) do call('PUBLISH', P .. ':wake', 'q' .. queue) end
  woken = {}
  for i = 1, #ended do call('PUBLISH', P .. ':wake', 'e' .. ended[i]) end
  ended = {}
end

-- Whether a text comes before another, byte by byte. Lua's own comparison goes
-- by the server's locale.

local function before(one, other)
  for i = 1, math.min(#one, #other) do
    local a, b = byte(one, i), byte(other, i)
    if a ~= b then return a < b end
  end
  return #one < #other
end

-- What a job's kind says: its priority, queue, name and keep. Jobs of one kind
-- share the text, so each is read once a script. Nil if it cannot be read.

local kinds = {}

local function read_kind(text)
  local priority, queue, name, bits, at = unpack_struct('>I4Hc0Hc0B', text)
  local kind = {
    priority = priority,
    score = 2147483648 - priority,
    queue = queue,
    name = name,
    waiting = P .. ':waiting:' .. queue .. '\0' .. name,
    delayed = P .. ':delayed:' .. queue .. '\0' .. name,
    keep = {},
  }
  for place, state in ipairs({ 'c', 'f', 'x' }) do
    local keep = {}
    local mask = math.floor(bits / 4 ^ (place - 1)) % 4
    local first = at
    if mask % 2 == 1 then
      keep.count = unpack_struct('>I4', text, at)
      at = at + 4
    end
    if mask >= 2 then
      keep.age = unpack_struct('>I6', text, at)
      at = at + 6
    end
    if mask > 0 then
      keep.text = mask .. ':' .. sub(text, first, at - 1)
      kind.keep[state] = keep
    end
  end
  return kind
end

local function kind_of(text)
  local kind = kinds[text]
  if kind == nil then
    local ok, read = pcall(read_kind, text)
    kind = ok and read
    kinds[text] = kind
  end
  return kind or nil
end

-- The member of a job in the index of delayed jobs: its priority rides along,
-- so that promotion reads no job.

local function delayed_member(kind, seq, id)
  return seq .. pack('>I4', kind.priority) .. id
end

local function file_delayed(kind, run_at, seq, id)
  zadd(kind.delayed, run_at, delayed_member(kind, seq, id))
  sadd(P .. ':delaying:' .. kind.queue, kind.name)
end

-- A job that is active, or has been touched since it was enqueued.

local LIVE = '>c1c6I6I6I4I4I4BHc0Hc0Hc0Hc0'

local function read_live(id, text)
  if not text or #text < 2 then return nil end
  local ok, state, seq, run_at, processed_at, made, recorded, stalled, flags, token, last, kind, extra =
    pcall(unpack_struct, LIVE, text)
  if not ok or not kind_of(kind) then return nil end
  return {
    id = id,
    state = state,
    seq = seq,
    run_at = run_at,
    processed_at = processed_at,
    made = made,
    recorded = recorded,
    stalled = stalled,
    cancel = flags % 2 == 1,
    flow = flags >= 2,
    token = token,
    last = last,
    kind = kind,
    extra = extra,
  }
end

local function live_text(job)
  return pack(
    LIVE, job.state, job.seq, job.run_at, job.processed_at, job.made, job.recorded, job.stalled,
    (job.cancel and 1 or 0) + (job.flow and 2 or 0), #job.token, job.token, #job.last, job.last,
    #job.kind, job.kind, #job.extra, job.extra
  )
end

-- What a job was enqueued with, but for what scripts need not know. The
-- longest such part is 3,100 bytes.

local function read_head(id)
  local text = call('GETRANGE', P .. ':job:' .. id, 0, 4095)
  if text == '' then return nil end
  local ok, seq, enqueued_at, run_at, nonce, kind, extra = pcall(unpack_struct, '>c6I6I6c6Hc0Hc0', text)
  if not ok or not kind_of(kind) then return { id = id, corrupt = true } end
  return {
    id = id,
    state = run_at > enqueued_at and 'd' or 'w',
    seq = seq,
    enqueued_at = enqueued_at,
    run_at = run_at,
    nonce = nonce,
    processed_at = NONE,
    made = 0,
    recorded = 0,
    stalled = 0,
    cancel = false,
    token = '',
    last = '',
    kind = kind,
    extra = extra,
  }
end

-- A finished job: what came of it, without the reason and the exit.

local END = '>c1c6I6I6I6I4I4I4Hc0c1B'

local function read_end(job, text)
  local ok, state, seq, run_at, processed_at, finished_at, made, recorded, stalled, last, outcome, flags =
    pcall(unpack_struct, END, text)
  if not ok then return false end
  job.state, job.seq, job.run_at, job.processed_at = state, seq, run_at, processed_at
  job.finished_at, job.made, job.recorded, job.stalled = finished_at, made, recorded, stalled
  job.last, job.outcome, job.flags = last, outcome, flags
  return true
end

-- Finds a job wherever it is in its life. Nil if there is none; `corrupt` if
-- what is stored cannot be read.

local function find(id)
  local text = call('HGET', P .. ':live', id)
  local live = read_live(id, text)
  if live then return live end
  local job = read_head(id)
  if not job or job.corrupt then return job end
  if text then
    -- One letter alone: promoted, and otherwise as it was enqueued.
    if #text > 1 then return { id = id, corrupt = true } end
    job.state = text
    return job
  end
  local over = call('GETRANGE', P .. ':end:' .. id, 0, 511)
  if over ~= '' and not read_end(job, over) then return { id = id, corrupt = true } end
  return job
end

local function is_over(job)
  return job.state == 'c' or job.state == 'f' or job.state == 'x'
end

-- Takes a job that is not over out of the index of its state.

local function unfile(job)
  local kind = kind_of(job.kind)
  count(kind.queue, job.state, -1)
  if job.state == 'w' then
    zrem(kind.waiting, job.seq .. job.id)
  elseif job.state == 'd' then
    zrem(kind.delayed, delayed_member(kind, job.seq, job.id))
  elseif job.state == 'a' then
    zrem(P .. ':active', job.id)
  end
end

-- Puts a job that waits, is delayed or parked into the index of its state.

local function file(job)
  local kind = kind_of(job.kind)
  job.token = ''
  count(kind.queue, job.state, 1)
  hset(P .. ':live', job.id, live_text(job))
  if job.state == 'w' then
    zadd(kind.waiting, kind.score, job.seq .. job.id)
  elseif job.state == 'd' then
    file_delayed(kind, job.run_at, job.seq, job.id)
  end
  if job.state ~= 'p' then wake(kind.queue) end
end

-- A ledger entry; `started` if it closes a run.

local function ledger_entry(job, outcome, started, exit)
  return pack('>I4c1I6I6B', job.recorded, outcome, started and job.processed_at or NONE, now, exit and 1 or 0)
    .. (exit or '')
end

local function record_attempt(job, outcome, exit)
  job.recorded = one_more(job.recorded)
  push(P .. ':ledger:' .. job.id, ledger_entry(job, outcome, job.state == 'a', exit))
end

-- A queue's settings: pause and limits. Nil if it has none.

local settings_seen = {}

local function look_up_queue(queue)
  local text = call('HGET', P .. ':queues', queue)
  if not text then return nil end
  local flags, max_active, rate_count, per, interval_ms, interval_us, lead_ms, lead_us, tat_ms, tat_us =
    unpack_struct('>BI4I4I6I6I2I6I2I6I2', text)
  return {
    paused = flags % 2 == 1,
    max_active = max_active > 0 and max_active or nil,
    count = rate_count,
    per = per,
    interval_ms = interval_ms,
    interval_us = interval_us,
    lead_ms = lead_ms,
    lead_us = lead_us,
    tat_ms = tat_ms,
    tat_us = tat_us,
  }
end

local function read_queue(queue)
  local settings = settings_seen[queue]
  if settings == nil then
    settings = look_up_queue(queue) or false
    settings_seen[queue] = settings
  end
  return settings or nil
end

local function write_queue(queue, s)
  hset(P .. ':queues', queue, pack(
    '>BI4I4I6I6I2I6I2I6I2', s.paused and 1 or 0, s.max_active or 0, s.count, s.per,
    s.interval_ms, s.interval_us, s.lead_ms, s.lead_us, s.tat_ms, s.tat_us
  ))
end
