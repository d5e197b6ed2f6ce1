-- Reads the workers that are not gone.
--
-- ARGV: now, how long a worker is remembered. Answers for each: when it was last
-- seen, and its record.

local answer = {}
local seen = call('ZRANGE', P .. ':workers', string.format('(%.0f', now - tonumber(ARGV[2])), '+inf', 'BYSCORE', 'WITHSCORES')
for i = 1, #seen, 2 do
  local record = call('HGET', P .. ':worker', seen[i])
  if record then
    answer[#answer + 1] = seen[i + 1]
    answer[#answer + 1] = record
  end
end
return answer
