-- Makes a delayed job runnable now, in its old place.
--
-- ARGV: now, id. Answers `ok`, `unknown`, `corrupt` or the letter of its state.

local job = find(ARGV[2])
if not job then return 'unknown' end
if job.corrupt then return 'corrupt' end
if job.state ~= 'd' then return job.state end
unfile(job)
job.state, job.run_at = 'w', now
file(job)
flush()
return 'ok'
