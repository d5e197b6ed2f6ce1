-- Reads a page of reports, oldest first.
--
-- ARGV: now, the number to read on from (empty: the beginning), how many.
-- Answers numbers and texts in turn; fewer than asked for only at the end or
-- where the page would grow too large.

local MOST_BYTES = 8388608
local after = '-'
-- A number that was never given out counts as none.
local from = tonumber(ARGV[2])
if from and from <= tonumber(call('GET', P .. ':seq') or 0) then
  after = string.format('(%.0f-18446744073709551615', from)
end
local most, answer, bytes = tonumber(ARGV[3]), { 0 }, 0
while most > 0 and bytes <= MOST_BYTES do
  local asked = math.min(most, 16)
  local entries = call('XRANGE', P .. ':outbox', after, '+', 'COUNT', asked)
  for _, entry in ipairs(entries) do
    local text = entry[2][2]
    answer[#answer + 1] = string.match(entry[1], '^%d+')
    answer[#answer + 1] = text
    bytes = bytes + #text
    after = '(' .. entry[1]
  end
  most = most - #entries
  if #entries < asked then
    answer[1] = 1
    break
  end
end
return answer
