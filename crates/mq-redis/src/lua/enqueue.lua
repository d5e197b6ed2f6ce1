-- Enqueues a page of jobs, each as if in turn, until one's drawn id is taken.
--
-- ARGV: now, then for each job: id, meta, body. The body is the job's record
-- but for its first 18 bytes, which are written here. Meta: whether the id is
-- drawn, what `when` is, its value; and for a job with a dedupe key whether it
-- replaces and extends, and its ttl.
--
-- Answers how many were handled, then for each that is no new job: its place
-- (from 1), the id and the name of the job that stands for it.

local DRAWN, AT, KEYED, REPLACES, EXTENDS = 1, 2, 4, 8, 16

local function has(bits, bit) return math.floor(bits / bit) % 2 == 1 end

local items = (#ARGV - 1) / 3
reserve(items)

local function name_of(kind_text) return kind_of(kind_text).name end

-- Jobs enqueued by this call and not flushed yet: id to kind.
local fresh = {}
local exceptions = {}

local function duplicate(place, id, name)
  local n = #exceptions
  exceptions[n + 1] = place
  exceptions[n + 2] = id
  exceptions[n + 3] = name
end

-- The job that holds a dedupe key, if its record is still there.
local function keyed_job(id, name, key)
  local job = find(id)
  if not job or job.corrupt then return nil end
  local held = #job.extra > 0 and byte(job.extra) % 2 == 1 and unpack_struct('>Hc0', job.extra, 2)
  if held == key and name_of(job.kind) == name then return job end
  return nil
end

local function replace_delayed(job, kind_text, at, body, run_at)
  local old = call('GET', P .. ':job:' .. job.id)
  local old_kind = kind_of(job.kind)
  local kind = kind_of(kind_text)
  -- What is asked for replaces what was, but not where the job belongs: its
  -- queue, its key, its parent.
  local merged = pack('>I4Hc0Hc0', kind.priority, #old_kind.queue, old_kind.queue, #kind.name, kind.name)
    .. sub(kind_text, 9 + #kind.queue + #kind.name)
  local _, rest = unpack_struct('>Hc0', body, at)
  set(P .. ':job:' .. job.id, sub(old, 1, 12) .. pack('>I6', run_at) .. sub(old, 19, 24)
    .. pack('>Hc0Hc0', #merged, merged, #job.extra, job.extra) .. sub(body, rest))
  unfile(job)
  count(old_kind.queue, 'd', 1)
  file_delayed({ priority = kind.priority, delayed = old_kind.delayed, queue = old_kind.queue,
    name = old_kind.name }, run_at, job.seq, job.id)
  -- It stays delayed, even if it is due at once.
  job.kind, job.run_at = merged, run_at
  hset(P .. ':live', job.id, live_text(job))
  wake(old_kind.queue)
end

-- The job that stands for one with a dedupe key, if one does.
local function find_duplicate(kind_text, key, at, body, bits, ttl, run_at)
  local name = name_of(kind_text)
  local field = name .. '\0' .. key
  local entry = call('HGET', P .. ':dedupes', field)
  if not entry then return nil end
  local window, id = unpack_struct('>I6', entry), sub(entry, 7)
  local job = keyed_job(id, name, key)
  local function set_window(to)
    hset(P .. ':dedupes', field, pack('>I6', to) .. id)
    if not job then zadd(P .. ':orphans', to, field) end
  end
  if has(bits, REPLACES) and job and job.state == 'd' then
    replace_delayed(job, kind_text, at, body, run_at)
    if ttl then set_window(later(ttl)) end
    return id, job.nonce
  end
  local stands
  if window ~= NONE then stands = now < window else stands = job and not is_over(job) end
  if not stands then return nil end
  if has(bits, EXTENDS) and window ~= NONE and ttl then set_window(math.max(window, later(ttl))) end
  return id, job and (job.nonce or (read_head(id) or {}).nonce)
end

local keys = {}
for i = 1, items do keys[i] = P .. ':job:' .. ARGV[i * 3 - 1] end
-- Mostly none is taken.
local any_taken = items > 0 and call('EXISTS', unpack(keys)) > 0

local handled = 0
for i = 1, items do
  local id, meta, body = ARGV[i * 3 - 1], ARGV[i * 3], ARGV[i * 3 + 1]
  local bits, instant, ttl = unpack_struct('>BI6I6', meta)
  local kind_text, after_kind = kind_text_of(body)
  local drawn = has(bits, DRAWN)
  local run_at = has(bits, AT) and math.max(instant, now) or later(instant)
  local taken = fresh[id] and { kind = fresh[id] }
  if not taken and any_taken then taken = read_head(id) end

  local standing
  if taken and drawn and taken.nonce == sub(body, 1, 6) then
    -- A first try of this very call landed.
    standing = true
  elseif taken and not drawn then
    duplicate(i, id, taken.corrupt and '' or name_of(taken.kind))
    standing = true
  elseif has(bits, KEYED) then
    flush()
    local extra = unpack_struct('>Hc0', body, after_kind)
    local key = unpack_struct('>Hc0', extra, 2)
    local keyed, nonce = find_duplicate(kind_text, key, after_kind, body, bits, ttl ~= NONE and ttl, run_at)
    if keyed then
      if not (keyed == id and nonce == sub(body, 1, 6)) then
        duplicate(i, keyed, name_of(kind_text))
      end
      standing = true
      flush()
    elseif not taken then
      local field = name_of(kind_text) .. '\0' .. key
      zrem(P .. ':orphans', field)
      hset(P .. ':dedupes', field, pack('>I6', ttl ~= NONE and later(ttl) or NONE) .. id)
    end
  end
  if not standing then
    if taken then break end
    insert(id, kind_text, body, run_at)
    fresh[id] = kind_text
    if has(bits, KEYED) then flush() end
  end
  handled = i
end
flush()
return { handled, exceptions }
