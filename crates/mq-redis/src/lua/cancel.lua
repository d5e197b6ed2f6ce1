-- Cancels a page of jobs, each on its own.
--
-- ARGV: now, then ids. Answers for each: 1 ended, 2 its worker will hear of it,
-- `unknown`, `corrupt`, or the letter of the state in which it has ended.

local ids = {}
for i = 2, #ARGV do ids[i - 1] = ARGV[i] end
reserve(#ids)
look_who_is_watched(ids)

local answers, seen = {}, {}
for i, id in ipairs(ids) do
  -- What was done to it before in this page has to be written first.
  if seen[id] then settle_keeps() end
  seen[id] = true
  local job = find_now(id)
  if not job then
    answers[i] = 'unknown'
  elseif job.corrupt then
    answers[i] = 'corrupt'
  elseif is_over(job) then
    answers[i] = job.state
  else
    answers[i] = cancel_job(job)
  end
end
settle_keeps()
return answers
