-- Flows: their state, their rows, and their turn in the sweeps. Stands after
-- the prelude and `terminal`. Writes at once, unlike the rest: what decides a
-- flow is read again within a script.

local FLOW = '>Hc0BI6I6I6I6I6I6'

local function read_flow(id)
  local text = call('HGET', P .. ':flows', id)
  if not text then return nil end
  local manifest, flags, pending, completed, failed, cancelled, owed, closed_at = unpack_struct(FLOW, text)
  return {
    id = id,
    manifest = manifest,
    fail_fast = flags % 2 == 1,
    closed = flags >= 2,
    pending = pending,
    c = completed,
    f = failed,
    x = cancelled,
    owed = owed,
    closed_at = closed_at,
  }
end

local function write_flow(flow)
  local flags = (flow.fail_fast and 1 or 0) + (flow.closed and 2 or 0)
  call('HSET', P .. ':flows', flow.id, pack(FLOW, #flow.manifest, flow.manifest, flags, flow.pending,
    flow.c, flow.f, flow.x, flow.owed, flow.closed_at))
end

-- One of the structures that hold a manifest's rows.
local function of_rows(part, flow_id, manifest)
  return P .. ':' .. part .. ':' .. flow_id .. '\0' .. manifest
end

-- A row: its status (`p` pending, else as of a job) and flags (1 cascaded, 2 has
-- an exit, 4 a reason), then name, store, job id, and, while it is pending, what
-- is needed to enqueue the child again; the reason and the exit.

local function row_status(row) return sub(row, 1, 1) end
local function row_flags(row) return byte(row, 2) end

-- Where what is needed to enqueue the child begins.
local function after_job_id(row)
  local _, _, _, at = unpack_struct('>Hc0Hc0Hc0', row, 3)
  return at
end

local function settled_row(row, status, reason, exit)
  local flags = 1 + (exit and 2 or 0) + (reason and 4 or 0)
  return status .. string.char(flags) .. sub(row, 3, after_job_id(row) - 1)
    .. pack('>I4I4c0', 0, #(reason or ''), reason or '') .. (exit or '')
end

-- ---- turns: flows that are due stand in line, the others rest

local TURNS = {
  reconcile = { resting = P .. ':reconcile', line = P .. ':reconciling' },
  cascade = { resting = P .. ':cascade', line = P .. ':cascading' },
}

local function line_up(turns, id)
  call('ZREM', turns.resting, id)
  call('ZADD', turns.line, call('INCR', P .. ':seq'), id)
end

local function leave(turns, id)
  call('ZREM', turns.resting, id)
  call('ZREM', turns.line, id)
end

local function rest(turns, id, key)
  local first = call('ZRANGE', key, 0, 0, 'WITHSCORES')
  call('ZREM', turns.line, id)
  if first[2] then call('ZADD', turns.resting, first[2], id) end
end

-- Calls off what is pending: the same work for any number of rows. From now on
-- a row that is stored as pending is cancelled, and owes a cancel. Answers how
-- many do.
local function close_flow(id)
  local flow = read_flow(id)
  if not flow then return 0 end
  if flow.closed then return flow.owed end
  flow.owed = flow.owed + flow.pending
  flow.x = flow.x + flow.pending
  flow.pending = 0
  flow.closed, flow.closed_at = true, now
  write_flow(flow)
  local pending = of_rows('pending', id, flow.manifest)
  if call('EXISTS', pending) == 1 then call('RENAME', pending, of_rows('fresh', id, flow.manifest)) end
  leave(TURNS.reconcile, id)
  if flow.owed > 0 then line_up(TURNS.cascade, id) end
  return flow.owed
end

-- Lets a parent that waited for its children go on, in its old place.
local function resume(job)
  unfile(job)
  job.state, job.run_at = 'w', now
  file(job)
end
