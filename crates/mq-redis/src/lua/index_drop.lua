-- Deletes a part of the list indexes.
--
-- ARGV: now, cursor, a pattern of their keys. Answers the next cursor, 0 after
-- the last part.

local part = call('SCAN', ARGV[2], 'MATCH', ARGV[3], 'COUNT', PAGE)
if #part[2] > 0 then call('UNLINK', unpack(part[2])) end
return part[1]
