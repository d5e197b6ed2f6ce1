-- Deletes a job with all that belongs to it.
--
-- ARGV: now, id. Answers `ok`, `unknown` or the letter of a state that keeps it.

local id = ARGV[2]
local job = find(id)
if not job then return 'unknown' end
if job.corrupt then
  -- Its places cannot be told from what is left of it. They heal where they are
  -- met: a claim, a list and retention pass over a member without a record.
  del(P .. ':job:' .. id)
  del(P .. ':end:' .. id)
  del(P .. ':ledger:' .. id)
  hdel(P .. ':live', id)
  hdel(P .. ':progress', id)
  srem(P .. ':watched', id)
  announce(id)
  flush()
  return 'ok'
end
if job.state == 'a' or job.state == 'p' then return job.state end
remove_all({ job })
return 'ok'
