-- Reads the schedules whose slot has come, the earliest first.
--
-- ARGV: now, limit. Answers now, the slot after those it answers, if any, then
-- keys and texts in turn.

local limit = tonumber(ARGV[2])
local slots = call('ZRANGE', P .. ':slots', 0, limit, 'WITHSCORES')
local answer = { now, false }
for i = 1, #slots, 2 do
  local at = tonumber(slots[i + 1])
  if at > now or i > 2 * limit then
    answer[2] = at
    break
  end
  answer[#answer + 1] = slots[i]
  answer[#answer + 1] = call('HGET', P .. ':schedules', slots[i])
end
return answer
