-- Removes finished jobs past their own `keep.age` or past the store's ceiling,
-- and dedupe entries that nothing holds any more; a page of each at the most.
--
-- ARGV: now, limit, then the ceilings of completed, failed and cancelled jobs in
-- milliseconds (empty: none). Answers how many jobs it removed, and whether
-- there are more.

local limit = tonumber(ARGV[2])
local ceilings = { c = tonumber(ARGV[3]), f = tonumber(ARGV[4]), x = tonumber(ARGV[5]) }

-- Whose minute is over is spared no longer, unless its flow owes cancels.
for _, id in ipairs(call('ZRANGE', P .. ':unspare', '-inf', now, 'BYSCORE', 'LIMIT', 0, PAGE)) do
  local job = find(id)
  zrem(P .. ':unspare', id)
  if job and not job.corrupt and is_over(job) and not owes(id) then unspare(job) end
end
flush()

local deleted, more = 0, false

-- Removes what lies in an index up to a score, as far as the page has room.
local function remove_up_to(key, most)
  local room = limit - deleted
  local members = call('ZRANGE', key, '-inf', most, 'BYSCORE', 'LIMIT', 0, room + 1)
  if #members > room then
    more = true
    members[room + 1] = nil
  end
  local jobs = finished_jobs(key, members)
  deleted = deleted + #jobs
  remove_all(jobs)
  flush()
end

remove_up_to(P .. ':expiring', now)
if ceilings.c or ceilings.f or ceilings.x then
  for _, slot in ipairs(call('SMEMBERS', P .. ':histories')) do
    local ceiling = ceilings[sub(slot, -1)]
    if ceiling and now >= ceiling then remove_up_to(P .. ':ended:' .. slot, now - ceiling) end
  end
end

for _, field in ipairs(call('ZRANGE', P .. ':orphans', '-inf', now, 'BYSCORE', 'LIMIT', 0, limit)) do
  zrem(P .. ':orphans', field)
  hdel(P .. ':dedupes', field)
end
flush()
return { deleted, more and 1 or 0 }
