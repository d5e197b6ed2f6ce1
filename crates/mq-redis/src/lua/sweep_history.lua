-- Removes finished jobs past their own `keep.age` or past the store's ceiling,
-- and dedupe entries that nothing holds any more; a page of each at the most.
--
-- ARGV: now, limit, then the ceilings of completed, failed and cancelled jobs in
-- milliseconds (empty: none). Answers how many jobs it removed, and whether
-- there are more.

local limit = tonumber(ARGV[2])
local ceilings = { c = tonumber(ARGV[3]), f = tonumber(ARGV[4]), x = tonumber(ARGV[5]) }

removals_left = limit
local deleted, more = 0, false

-- Whose minute is over is spared no longer, unless its flow owes cancels; and a
-- keep that could not act at its end has to act now.
local waited = call('ZRANGE', P .. ':unspare', '-inf', now, 'BYSCORE', 'LIMIT', 0, limit + 1, 'WITHSCORES')
for i = 1, #waited, 2 do
  local id = waited[i]
  if removals_left == 0 or i > 2 * limit then
    more = true
    break
  end
  local job = find(id)
  zrem(P .. ':unspare', id)
  if job and not job.corrupt and is_over(job) and not owes(id) then
    unspare(job)
    flush()
    local kind = kind_of(job.kind)
    local keep = kind.keep[job.state]
    if keep and keep.count then apply_keep(kind.name, job.state, keep) end
    if removals_left == 0 and call('EXISTS', P .. ':end:' .. id) == 1 then
      -- The page is full, and the keep may have more to do.
      zadd(P .. ':unspare', waited[i + 1], id)
      more = true
    end
  end
end
flush()
deleted = limit - removals_left

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
    if ceiling then remove_up_to(P .. ':ended:' .. slot, an_age_ago(ceiling)) end
  end
end

local orphans = call('ZRANGE', P .. ':orphans', '-inf', now, 'BYSCORE', 'LIMIT', 0, limit + 1)
if #orphans > limit then
  more = true
  orphans[limit + 1] = nil
end
for _, field in ipairs(orphans) do
  zrem(P .. ':orphans', field)
  hdel(P .. ':dedupes', field)
end
flush()
return { deleted, more and 1 or 0 }
