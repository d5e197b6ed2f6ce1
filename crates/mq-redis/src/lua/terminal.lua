-- The one way into a terminal state, what retention does on the way, and the
-- one way out of the store. Stands after the prelude where it is needed.

local function read_dedupe(extra)
  if extra == '' or byte(extra) % 2 == 0 then return nil end
  return (unpack_struct('>Hc0', extra, 2))
end

local function read_parent(extra)
  if extra == '' or byte(extra) < 2 then return nil end
  local at = 2
  if byte(extra) % 2 == 1 then
    local _, after = unpack_struct('>Hc0', extra, at)
    at = after
  end
  local flow_name, flow_id, manifest, child_key, store = unpack_struct('>Hc0Hc0Hc0Hc0Hc0', extra, at)
  return { flow_id = flow_id, manifest = manifest, child_key = child_key, store = store }
end

local function history(name, state) return P .. ':ended:' .. name .. '\0' .. state end
local function spared(name, state) return P .. ':spared:' .. name .. '\0' .. state end

local function report_key(store, flow_id, manifest, child_key)
  return table.concat({ store, flow_id, manifest, child_key, '' }, '\0')
end

-- Appends a child's report to the outbox, in the step that ends it.
local function report(job, reason, exit)
  local parent = read_parent(job.extra)
  if not parent then return end
  local flags = (exit and 1 or 0) + (reason and 2 or 0)
  local number = unpack_struct('>I6', job.seq)
  call('XADD', P .. ':outbox', string.format('%.0f-0', number), 'r',
    pack('>c1BI4c0I4c0', job.state, flags, #job.extra, job.extra, #(reason or ''), reason or '')
      .. (exit or ''))
  zadd(P .. ':reports', 0,
    report_key(parent.store, parent.flow_id, parent.manifest, parent.child_key) .. job.seq)
end

-- ---- removing jobs

local function forget_rows(flow_id, manifest)
  local tail = flow_id .. '\0' .. manifest
  for _, part in ipairs({ 'rows', 'keys', 'pending', 'fresh', 'owed' }) do
    call('UNLINK', P .. ':' .. part .. ':' .. tail)
  end
end

-- Deletes jobs that are not active, with all that belongs to them; `jobs` are
-- as `find` gives them. Flushes.
local function remove_all(jobs)
  if #jobs == 0 then return end
  local ids = {}
  for i, job in ipairs(jobs) do ids[i] = job.id end
  local watched = call('SMISMEMBER', P .. ':watched', unpack(ids))
  local flows = call('HMGET', P .. ':flows', unpack(ids))
  local staged = call('HMGET', P .. ':staged', unpack(ids))
  for i, job in ipairs(jobs) do
    local id, kind = job.id, kind_of(job.kind)
    del(P .. ':job:' .. id)
    del(P .. ':ledger:' .. id)
    hdel(P .. ':progress', id)
    if is_over(job) then
      count(kind.queue, job.state, -1)
      zrem(history(kind.name, job.state), job.seq .. id)
      zrem(spared(kind.name, job.state), job.seq .. id)
      zrem(P .. ':unspare', id)
      zrem(P .. ':expiring', job.seq .. id)
      del(P .. ':end:' .. id)
    else
      unfile(job)
      hdel(P .. ':live', id)
    end
    zrem(P .. ':byname:' .. kind.name, id)
    zrem(P .. ':byqueue:' .. kind.queue, id)
    local key = read_dedupe(job.extra)
    if key then
      local field = kind.name .. '\0' .. key
      local entry = call('HGET', P .. ':dedupes', field)
      if entry and sub(entry, 7) == id then
        local window = unpack_struct('>I6', entry)
        if window ~= NONE and now < window then
          zadd(P .. ':orphans', window, field)
        else
          hdel(P .. ':dedupes', field)
        end
      end
    end
    if watched[i] == 1 then
      srem(P .. ':watched', id)
      announce(id)
    end
    if flows[i] then
      hdel(P .. ':flows', id)
      zrem(P .. ':reconcile', id)
      zrem(P .. ':cascade', id)
      zrem(P .. ':reconciling', id)
      zrem(P .. ':cascading', id)
      forget_rows(id, (unpack_struct('>Hc0', flows[i])))
    end
    if staged[i] then
      hdel(P .. ':staged', id)
      forget_rows(id, staged[i])
    end
  end
  flush()
end

-- The finished jobs behind members of a history, to be removed. A member whose
-- job is gone is dropped on the way.
local function finished_jobs(key, members)
  local jobs = {}
  for _, member in ipairs(members) do
    local id = sub(member, 7)
    local job = read_head(id)
    local over = call('GETRANGE', P .. ':end:' .. id, 0, 511)
    if job and not job.corrupt and read_end(job, over) and job.seq == sub(member, 1, 6) then
      jobs[#jobs + 1] = job
    else
      zrem(key, member)
    end
  end
  return jobs
end

-- ---- sparing

local SPARED_FOR = 60000

local function expires_at(kind, state, finished_at)
  local keep = kind.keep[state]
  return keep and keep.age and math.min(finished_at + keep.age, LAST_INSTANT)
end

-- Lets retention act on a finished job again.
local function unspare(job)
  local kind = kind_of(job.kind)
  local member = job.seq .. job.id
  zrem(P .. ':unspare', job.id)
  zrem(spared(kind.name, job.state), member)
  zadd(history(kind.name, job.state), job.finished_at, member)
  local expiry = expires_at(kind, job.state, job.finished_at)
  if expiry then zadd(P .. ':expiring', expiry, member) end
end

-- Whether retention must wait for cancels that the flow still owes.
local function owes(id)
  local flow = call('HGET', P .. ':flows', id)
  if not flow then return false end
  local at = 3 + byte(flow, 1) * 256 + byte(flow, 2)
  return unpack_struct('>I6', flow, at + 25) > 0
end

-- Unspares the jobs of a history whose minute is over, a page at the most.
local function unspare_overdue(name, state)
  local key = spared(name, state)
  local members = call('ZRANGE', key, '-inf', an_age_ago(SPARED_FOR), 'BYSCORE', 'LIMIT', 0, PAGE)
  if #members == 0 then return end
  for _, job in ipairs(finished_jobs(key, members)) do
    if not owes(job.id) then unspare(job) end
  end
  flush()
end

-- ---- keep

-- How many more jobs retention may remove on behalf of this page.
local removals_left = PAGE

-- How many spared jobs ended before this one.
local function spared_before(key, member, score)
  local older = call('ZCOUNT', key, '-inf', '(' .. score)
  for _, tied in ipairs(call('ZRANGE', key, score, score, 'BYSCORE')) do
    if before(tied, member) then older = older + 1 end
  end
  return older
end

-- The members that a keep gives up among the jobs of a name and state: the
-- oldest that are not spared, beyond the count or past the age.
local function given_up(name, state, keep)
  local key, aside = history(name, state), spared(name, state)
  local total, total_spared = call('ZCARD', key), call('ZCARD', aside)
  local by_age = 0
  if keep.age then
    by_age = math.min(call('ZCOUNT', key, '-inf', an_age_ago(keep.age)), removals_left)
  end
  local by_count = 0
  if keep.count and total_spared == 0 then
    by_count = math.min(math.max(total - keep.count, 0), removals_left)
  elseif keep.count then
    local heads = call('ZRANGE', key, 0, removals_left - 1, 'WITHSCORES')
    for i = 1, #heads, 2 do
      local older = (i - 1) / 2
      local newer = total - older + total_spared - spared_before(aside, heads[i], heads[i + 1]) - 1
      if newer < keep.count then break end
      by_count = older + 1
    end
  end
  local most = math.max(by_age, by_count)
  if most == 0 then return key, {} end
  return key, call('ZRANGE', key, 0, most - 1)
end

local function apply_keep(name, state, keep)
  unspare_overdue(name, state)
  while removals_left > 0 do
    local key, members = given_up(name, state, keep)
    if #members == 0 then return end
    local jobs = finished_jobs(key, members)
    removals_left = removals_left - #jobs
    remove_all(jobs)
    flush()
  end
end

-- Keeps that have to act once what was gathered is written, by name and state.
local keeps = {}

local function settle_keeps()
  flush()
  for _, due in pairs(keeps) do
    if due.keep then apply_keep(due.name, due.state, due.keep) end
  end
  keeps = {}
end

-- Finds a job after what this script has ended so far: one that is over may
-- have been given up by then.
local function find_now(id)
  local job = find(id)
  if job and not job.corrupt and is_over(job) and next(keeps) then
    settle_keeps()
    job = find(id)
  end
  return job
end

-- ---- finishing

local watched_ids = {}

-- Asks which of these jobs are watched, before they are finished.
local function look_who_is_watched(ids)
  if #ids == 0 then return end
  for i, is in ipairs(call('SMISMEMBER', P .. ':watched', unpack(ids))) do
    if is == 1 then watched_ids[ids[i]] = true end
  end
end

-- Ends a job. `job` is as `find` or `read_live` gives it, not over, and its
-- old place is left. `how` has: state, outcome, and perhaps exit (for record
-- and ledger), ledger_exit (for the ledger alone), reason. Call `settle_keeps` in the end.
local function finish(job, how)
  local kind = kind_of(job.kind)
  local id, started = job.id, job.state == 'a'
  local slot = kind.name .. '\0' .. how.state
  local keep = kind.keep[how.state]
  local due = keeps[slot]
  if due and (due.keep and due.keep.text) ~= (keep and keep.text) then
    -- The jobs before this one answer to another keep: it acts first.
    settle_keeps()
    due = nil
  end
  if not due then keeps[slot] = { name = kind.name, state = how.state, keep = keep } end

  unfile(job)
  hdel(P .. ':live', id)
  if started then
    local settings = read_queue(kind.queue)
    if settings and settings.max_active then wake(kind.queue) end
  end
  job.state, job.seq, job.finished_at = how.state, draw_seq(), now
  job.recorded = one_more(job.recorded)
  local exit = how.exit or how.ledger_exit
  local flags = (how.exit and 1 or 0) + (exit and 2 or 0) + (started and 4 or 0) + (how.reason and 8 or 0)
  local reason = how.reason or ''
  set(P .. ':end:' .. id, pack(END .. 'Hc0', how.state, job.seq, job.run_at, job.processed_at, now,
    job.made, job.recorded, job.stalled, #job.last, job.last, how.outcome, flags, #reason, reason)
    .. (exit or ''))
  count(kind.queue, how.state, 1)
  local member = job.seq .. id
  local watched = watched_ids[id]
  -- Retention must wait for the cancels that its flow owes.
  if watched or job.flow and owes(id) then
    zadd(spared(kind.name, how.state), now, member)
    if watched then
      zadd(P .. ':unspare', math.min(now + SPARED_FOR, LAST_INSTANT), id)
      announce(id)
    end
  else
    zadd(history(kind.name, how.state), now, member)
    local expiry = expires_at(kind, how.state, now)
    if expiry then zadd(P .. ':expiring', expiry, member) end
  end
  sadd(P .. ':histories', slot)
  report(job, how.reason, how.exit)
end
