-- Puts a page of active jobs back, or ends those that are to be cancelled.
--
-- ARGV: now, then for each: id, token. Answers for each: 1, `lost` or `unknown`.

local locks = (#ARGV - 1) / 2
local ids = {}
for i = 1, locks do ids[i] = ARGV[i * 2] end
local texts = call('HMGET', P .. ':live', unpack(ids))
look_who_is_watched(ids)

local answers, done = {}, {}
for i, id in ipairs(ids) do
  local job = not done[id] and read_live(id, texts[i])
  if job and job.state == 'a' and job.token == ARGV[i * 2 + 1] then
    if job.cancel then
      finish(job, { state = 'x', outcome = 'x' })
    else
      unfile(job)
      job.state = 'w'
      file(job)
    end
    done[id] = true
    answers[i] = 1
  elseif done[id] or find_now(id) then
    answers[i] = 'lost'
  else
    answers[i] = 'unknown'
  end
end
settle_keeps()
return answers
