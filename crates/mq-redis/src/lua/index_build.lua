-- Puts a part of all jobs into the list indexes.
--
-- ARGV: now, cursor, the pattern of the keys of records. Answers the next
-- cursor, 0 after the last part.

local part = call('SCAN', ARGV[2], 'MATCH', ARGV[3], 'COUNT', PAGE)
local begins = #P + 6
for _, key in ipairs(part[2]) do
  local id = sub(key, begins)
  local job = read_head(id)
  if job and not job.corrupt then
    local kind = kind_of(job.kind)
    zadd(P .. ':byname:' .. kind.name, job.enqueued_at, id)
    zadd(P .. ':byqueue:' .. kind.queue, job.enqueued_at, id)
  end
end
flush()
return part[1]
