-- Stores what a handler reports.
--
-- ARGV: now, id, token, progress. Answers 1, `lost` or `unknown`.

local id = ARGV[2]
local job = read_live(id, call('HGET', P .. ':live', id))
if job and job.state == 'a' and job.token == ARGV[3] then
  call('HSET', P .. ':progress', id, ARGV[4])
  return 1
end
return call('EXISTS', P .. ':job:' .. id) == 1 and 'lost' or 'unknown'
