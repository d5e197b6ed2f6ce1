-- Advances a schedule past a slot and enqueues the slot's job, if nobody has.
--
-- ARGV: now, key, version, the slot, the next slot, and perhaps a job: id,
-- whether its `when` is an instant (0 or 1), the instant or delay, body.
--
-- Answers 1 if this call advanced it and enqueued the job, if there is one.

local key, id = ARGV[2], ARGV[6]
local stored = call('HGET', P .. ':schedules', key)
if not stored then return 0 end
local version, next_run_at = unpack_struct('>I6I6', stored)
if version ~= tonumber(ARGV[3]) or next_run_at ~= tonumber(ARGV[4]) then return 0 end

local following = tonumber(ARGV[5])
hset(P .. ':schedules', key, sub(stored, 1, 6) .. pack('>I6', following) .. sub(stored, 13))
zadd(P .. ':slots', following, key)
local enqueued = 1
if id and call('EXISTS', P .. ':job:' .. id) == 1 then
  enqueued = 0
elseif id then
  local instant, body = tonumber(ARGV[8]), ARGV[9]
  insert(id, kind_text_of(body), body, ARGV[7] == '1' and math.max(instant, now) or later(instant))
end
flush()
return enqueued
