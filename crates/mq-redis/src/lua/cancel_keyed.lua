-- Cancels the job that holds a dedupe key, if it is not over.
--
-- ARGV: now, name, key. Answers 1 if there was one to cancel.

local name, key = ARGV[2], ARGV[3]
local entry = call('HGET', P .. ':dedupes', name .. '\0' .. key)
if not entry then return 0 end
local job = find(sub(entry, 7))
local holds = job and not job.corrupt and not is_over(job)
  and read_dedupe(job.extra) == key and kind_of(job.kind).name == name
if not holds then return 0 end
look_who_is_watched({ job.id })
cancel_job(job)
settle_keeps()
return 1
