-- Ends a run by fanning out: stages a page of its children's rows, and with the
-- last page parks the parent. Staged rows lie under the lock's token, which no
-- flow names until then.
--
-- ARGV: now, id, token, whether this is the last page, whether the flow fails
-- fast, then keys and rows in turn.
--
-- Answers 1 applied (or staged), 0 repeated, `lost`, `unknown`, or `has` if the
-- parent has its manifest already, so that no rows need to be staged.

local id, token, is_last = ARGV[2], ARGV[3], ARGV[4] == '1'
local job = read_live(id, call('HGET', P .. ':live', id))
if not job or job.state ~= 'a' or job.token ~= token then
  job = job or find(id)
  if not job then return 'unknown' end
  if job.last == token then return 0 end
  return 'lost'
end

local flow = read_flow(id)
if flow and not is_last then return 'has' end

if not flow and (#ARGV > 5 or not is_last) then
  local staged = call('HGET', P .. ':staged', id)
  if staged ~= token then
    if staged then forget_rows(id, staged) end
    call('HSET', P .. ':staged', id, token)
  end
  local rows, keys, pending = {}, {}, {}
  for i = 6, #ARGV, 2 do
    local n = #rows
    rows[n + 1], rows[n + 2] = ARGV[i], ARGV[i + 1]
    keys[n + 1], keys[n + 2] = 0, ARGV[i]
    pending[n + 1], pending[n + 2] = now, ARGV[i]
  end
  if #rows > 0 then
    call('HSET', of_rows('rows', id, token), unpack(rows))
    call('ZADD', of_rows('keys', id, token), unpack(keys))
    call('ZADD', of_rows('pending', id, token), unpack(pending))
  end
end
if not is_last then return 1 end

if not flow then
  local staged = call('HGET', P .. ':staged', id)
  if staged and staged ~= token then forget_rows(id, staged) end
  call('HDEL', P .. ':staged', id)
  flow = {
    id = id, manifest = token, fail_fast = ARGV[5] == '1', closed = false,
    pending = call('HLEN', of_rows('rows', id, token)), c = 0, f = 0, x = 0, owed = 0, closed_at = NONE,
  }
  write_flow(flow)
end

local kind = kind_of(job.kind)
job.flow, job.last = true, token
record_attempt(job, 'o', nil)
local settings = read_queue(kind.queue)
if settings and settings.max_active then wake(kind.queue) end
if job.cancel then
  -- The run has ended; what is cancelled is a parent that waits.
  look_who_is_watched({ id })
  unfile(job)
  job.state = 'p'
  count(kind.queue, 'p', 1)
  close_flow(id)
  finish(job, { state = 'x', outcome = 'x' })
  settle_keeps()
  return 1
end
unfile(job)
if flow.pending > 0 then
  job.state = 'p'
  call('ZADD', TURNS.reconcile.resting, now, id)
else
  job.state, job.run_at = 'w', now
end
file(job)
flush()
return 1
