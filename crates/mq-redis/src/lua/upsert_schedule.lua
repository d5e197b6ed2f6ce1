-- Stores a schedule. An unchanged cadence keeps the slot that is next.
--
-- ARGV: now, key, next_run_at, cadence, the rest. Answers the version, which is
-- new, and the next slot.

local key, next_run_at, cadence = ARGV[2], tonumber(ARGV[3]), ARGV[4]
local stored = call('HGET', P .. ':schedules', key)
if stored then
  local _, stored_next, stored_cadence = unpack_struct('>I6I6Hc0', stored)
  if stored_cadence == cadence then next_run_at = stored_next end
end
-- Drawn store-wide, so that a tick decided before a schedule was removed and
-- made again is void too.
local version = draw_seq()
call('HSET', P .. ':schedules', key, version .. pack('>I6Hc0', next_run_at, #cadence, cadence) .. ARGV[5])
call('ZADD', P .. ':slots', next_run_at, key)
return { (unpack_struct('>I6', version)), next_run_at }
