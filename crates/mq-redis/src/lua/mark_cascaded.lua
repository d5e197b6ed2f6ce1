-- Takes note that cancels went out to a page of children.
--
-- ARGV: now, flow id, manifest, then keys.

local flow = read_flow(ARGV[2])
if not flow or flow.manifest ~= ARGV[3] or not flow.closed then return 0 end
local rows = of_rows('rows', flow.id, flow.manifest)
local paid = 0
for i = 4, #ARGV do
  local key = ARGV[i]
  local row = call('HGET', rows, key)
  if row and row_status(row) == 'p' and row_flags(row) % 2 == 0 then
    call('HSET', rows, key, 'p' .. string.char(row_flags(row) + 1) .. sub(row, 3))
    call('ZREM', of_rows('fresh', flow.id, flow.manifest), key)
    call('ZREM', of_rows('owed', flow.id, flow.manifest), key)
    paid = paid + 1
  end
end
if paid == 0 then return 0 end
flow.owed = flow.owed - paid
write_flow(flow)
if flow.owed == 0 then
  leave(TURNS.cascade, flow.id)
  -- Retention waited for this.
  local job = find(flow.id)
  if job and not job.corrupt and is_over(job) and not call('ZSCORE', P .. ':unspare', flow.id) then
    local keep = kind_of(job.kind).keep[job.state]
    if keep and keep.count then
      -- A keep by count that could not act has to act now.
      zadd(P .. ':unspare', now, flow.id)
    else
      unspare(job)
    end
    flush()
  end
end
return paid
