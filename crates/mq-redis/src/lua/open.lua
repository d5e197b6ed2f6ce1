-- Takes a store into use: a new one is given this layout and this choice of
-- list indexes; one of another layout is left alone.
--
-- ARGV: now, layout, list indexes (`on` or `off`). Answers the layout and the
-- state of the list indexes (`on`, `off` or `building`).

local schema = P .. ':schema'
local layout = call('HGET', schema, 'layout')
if layout and layout ~= ARGV[2] then return { layout, '' } end
if not layout then
  call('HSET', schema, 'layout', ARGV[2], 'indexes', ARGV[3])
end
return { ARGV[2], call('HGET', schema, 'indexes') or '' }
