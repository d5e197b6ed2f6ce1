-- Reads the reports of some children that are still in the outbox.
--
-- ARGV: now, parent store, flow id, manifest, then keys. Answers numbers and
-- texts in turn: by key, and of a child's the oldest first.

local answer = {}
for i = 5, #ARGV do
  local begins = report_key(ARGV[2], ARGV[3], ARGV[4], ARGV[i])
  local found = call('ZRANGE', P .. ':reports', '[' .. begins, '[' .. begins .. string.rep('\255', 7), 'BYLEX')
  for _, member in ipairs(found) do
    local number = string.format('%.0f', (unpack_struct('>I6', member, #begins + 1)))
    local entry = call('XRANGE', P .. ':outbox', number .. '-0', number .. '-0')[1]
    if entry then
      answer[#answer + 1] = number
      answer[#answer + 1] = entry[2][2]
    end
  end
end
return answer
