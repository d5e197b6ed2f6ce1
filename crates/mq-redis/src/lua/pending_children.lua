-- Which of some children are pending under a parked parent.
--
-- ARGV: now, flow id, manifest, then keys. Answers the places (from 1) of those
-- that are.

local flow = read_flow(ARGV[2])
local job = flow and find(ARGV[2])
if not flow or flow.manifest ~= ARGV[3] or flow.closed or not job or job.state ~= 'p' then return {} end
local keys = {}
for i = 4, #ARGV do keys[i - 3] = ARGV[i] end
local answer = {}
for i, row in ipairs(call('HMGET', of_rows('rows', flow.id, flow.manifest), unpack(keys))) do
  if row and row_status(row) == 'p' then answer[#answer + 1] = i end
end
return answer
