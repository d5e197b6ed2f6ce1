-- Reads a page of a flow's rows, by key.
--
-- ARGV: now, flow id, the key to read on from (empty: the beginning), how many.
-- Answers whether the flow is closed, whether the page is cut short by its size,
-- then keys and rows in turn.

local MOST_BYTES = 8388608
local flow = read_flow(ARGV[2])
if not flow then return { 0, 0 } end
local from = ARGV[3] == '' and '-' or '(' .. ARGV[3]
local keys = call('ZRANGE', of_rows('keys', flow.id, flow.manifest), from, '+', 'BYLEX', 'LIMIT', 0, ARGV[4])
local answer, bytes = { flow.closed and 1 or 0, 0 }, 0
local rows = of_rows('rows', flow.id, flow.manifest)
for first = 1, #keys, 16 do
  if bytes > MOST_BYTES then
    answer[2] = 1
    break
  end
  local last = math.min(first + 15, #keys)
  for i, row in ipairs(call('HMGET', rows, unpack(keys, first, last))) do
    answer[#answer + 1] = keys[first + i - 1]
    answer[#answer + 1] = row
    bytes = bytes + #(row or '')
  end
end
return answer
