-- Deletes reports.
--
-- ARGV: now, then numbers.

for i = 2, #ARGV do
  local id = ARGV[i] .. '-0'
  local entry = call('XRANGE', P .. ':outbox', id, id)[1]
  if entry then
    local _, _, extra = unpack_struct('>c1BI4c0', entry[2][2])
    local parent = read_parent(extra)
    call('ZREM', P .. ':reports', report_key(parent.store, parent.flow_id, parent.manifest, parent.child_key)
      .. pack('>I6', tonumber(ARGV[i])))
    call('XDEL', P .. ':outbox', id)
  end
end
return 1
