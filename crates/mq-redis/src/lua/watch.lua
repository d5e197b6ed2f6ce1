-- Marks a page of jobs as watched.
--
-- ARGV: now, then ids. Answers the places (from 1) of those that have ended, or
-- are unknown.

local over = {}
for i = 2, #ARGV do
  local id = ARGV[i]
  local job = find(id)
  local ended = not job or job.corrupt or is_over(job)
  if ended then over[#over + 1] = i - 1 end
  local is_new = job and call('SADD', P .. ':watched', id) == 1
  if is_new and not job.corrupt and is_over(job) and now < job.finished_at + SPARED_FOR then
    local kind = kind_of(job.kind)
    local member = job.seq .. id
    zrem(history(kind.name, job.state), member)
    zrem(P .. ':expiring', member)
    zadd(spared(kind.name, job.state), job.finished_at, member)
    zadd(P .. ':unspare', math.min(job.finished_at + SPARED_FOR, LAST_INSTANT), id)
  end
end
flush()
return over
