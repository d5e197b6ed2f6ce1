-- Ends a page of runs, each on its own.
--
-- ARGV: now, then for each: id, token, what came of it, exit (empty: none).
-- What came of it: `c` completed, `f` failed, `x` cancelled, `b` broken (failed
-- by the store, the exit is the reason), `r` and a delay: retry, `s` and a
-- delay: snooze.
--
-- Answers for each: 1 applied, 0 repeated, `lost` or `unknown`.

local acks = (#ARGV - 1) / 4
local ids = {}
for i = 1, acks do ids[i] = ARGV[i * 4 - 2] end
local texts = call('HMGET', P .. ':live', unpack(ids))
reserve(acks)
look_who_is_watched(ids)

-- An ack whose token does not hold the job: it may be a repeated one.
local function judge(id, live, token)
  local job = live or find_now(id)
  if not job then return 'unknown' end
  if job.last == token then return 0 end
  return 'lost'
end


local answers = {}
for i = 1, acks do
  local id, token, what, exit = ids[i], ARGV[i * 4 - 1], ARGV[i * 4], ARGV[i * 4 + 1]
  local job = read_live(id, texts[i])
  if not job or job.state ~= 'a' or job.token ~= token then
    answers[i] = judge(id, job, token)
  else
    local letter, delay = sub(what, 1, 1), tonumber(sub(what, 2))
    exit = exit ~= '' and exit or nil
    job.last = token
    if letter ~= 's' then job.made = one_more(job.made) end
    if letter == 'b' then
      finish(job, { state = 'f', outcome = 'f', reason = exit })
    elseif letter == 'c' or letter == 'f' or letter == 'x' then
      finish(job, { state = letter, outcome = letter, exit = exit })
    elseif job.cancel then
      -- The exit of a retry that was not to be goes to the ledger alone.
      finish(job, { state = 'x', outcome = 'x', ledger_exit = letter == 'r' and exit or nil })
    else
      record_attempt(job, letter, exit)
      unfile(job)
      job.seq, job.run_at = draw_seq(), later(delay)
      job.state = job.run_at > now and 'd' or 'w'
      file(job)
    end
    answers[i] = 1
  end
end
settle_keeps()
return answers
