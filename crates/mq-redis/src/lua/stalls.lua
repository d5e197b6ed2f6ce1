-- Takes back jobs whose lock has expired, a page at the most.
--
-- ARGV: now, max_stalled_count, limit. Answers whether there are more, then for
-- each that counted a stall: id, name, queue, 1 if it failed.

local most_stalls, limit = tonumber(ARGV[2]), tonumber(ARGV[3])
local ids = call('ZRANGE', P .. ':active', '-inf', now, 'BYSCORE', 'LIMIT', 0, limit + 1)
local more = #ids > limit and 1 or 0
ids[limit + 1] = nil
if #ids == 0 then return { 0 } end
local texts = call('HMGET', P .. ':live', unpack(ids))
look_who_is_watched(ids)

-- A fan-out that its worker did not finish left rows that nobody will see.
for i, manifest in ipairs(call('HMGET', P .. ':staged', unpack(ids))) do
  if manifest then
    forget_rows(ids[i], manifest)
    hdel(P .. ':staged', ids[i])
  end
end

local stalled = { more }
for i, id in ipairs(ids) do
  local job = read_live(id, texts[i])
  if not job or job.state ~= 'a' then
    -- Nothing is left of it but its lock.
    zrem(P .. ':active', id)
  elseif job.cancel then
    finish(job, { state = 'x', outcome = 'x' })
  else
    local kind = kind_of(job.kind)
    job.stalled = one_more(job.stalled)
    local failed = job.stalled > most_stalls
    if failed then
      finish(job, {
        state = 'f',
        outcome = 't',
        reason = string.format(
          'stalled %.0f times, at most %.0f allowed: its worker died or lost touch with the store each time',
          job.stalled, most_stalls),
      })
    else
      record_attempt(job, 't', nil)
      unfile(job)
      job.state = 'w'
      file(job)
    end
    local n = #stalled
    stalled[n + 1], stalled[n + 2], stalled[n + 3], stalled[n + 4] = id, kind.name, kind.queue, failed and 1 or 0
  end
end
settle_keeps()
return stalled
