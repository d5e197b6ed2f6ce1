-- Extends a page of locks.
--
-- ARGV: now, lock_for, then for each: id, token. Answers two lists of places
-- (from 1): locks that are lost, and jobs that are to be cancelled.

local lock_expires_at = later(tonumber(ARGV[2]))
local ids = {}
for i = 1, (#ARGV - 2) / 2 do ids[i] = ARGV[i * 2 + 1] end
local texts = call('HMGET', P .. ':live', unpack(ids))

local lost, to_cancel = {}, {}
for i, id in ipairs(ids) do
  local job = read_live(id, texts[i])
  if not job or job.state ~= 'a' or job.token ~= ARGV[i * 2 + 2] then
    lost[#lost + 1] = i
  elseif job.cancel then
    to_cancel[#to_cancel + 1] = i
  else
    zadd(P .. ':active', lock_expires_at, id)
  end
end
flush()
return { lost, to_cancel }
