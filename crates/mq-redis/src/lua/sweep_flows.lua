-- Hands out what sweepers have to look after: rows that have been pending for an
-- age, and rows that owe a cancel. What is handed out rests for another age.
--
-- ARGV: now, pending age, limit (of each kind). Answers whether there is more,
-- then two lists: for each row to reconcile flow id, manifest, key and row; for
-- each to cascade the same, and for how long the cancel has been owed.

local MOST_BYTES = 8388608
local age, limit = tonumber(ARGV[2]), tonumber(ARGV[3])
local due = an_age_ago(age)
local more = false

-- The rows of a flow that are due, the longest due first, and how to have them
-- rest; one more than there is room for tells whether there are more.

local function due_of(key, room)
  if due < 0 then return {} end
  return call('ZRANGE', key, '-inf', due, 'BYSCORE', 'LIMIT', 0, room + 1)
end

local KINDS = {}

function KINDS.reconcile(flow, room)
  if flow.closed or sub(call('HGET', P .. ':live', flow.id) or '', 1, 1) ~= 'p' then return nil end
  local pending = of_rows('pending', flow.id, flow.manifest)
  return due_of(pending, room), pending
end

function KINDS.cascade(flow, room)
  if not flow.closed or flow.owed == 0 then return nil end
  local owed, fresh = of_rows('owed', flow.id, flow.manifest), of_rows('fresh', flow.id, flow.manifest)
  local keys = call('ZRANGE', fresh, 0, room)
  if #keys <= room then
    for _, key in ipairs(due_of(owed, room - #keys)) do keys[#keys + 1] = key end
  end
  return keys, owed, fresh
end

local function sweep(name)
  local turns, due_rows = TURNS[name], KINDS[name]
  if due >= 0 then
    for _, id in ipairs(call('ZRANGE', turns.resting, '-inf', due, 'BYSCORE', 'LIMIT', 0, limit + 1)) do
      line_up(turns, id)
    end
  end
  local answer, room, bytes, served = {}, limit, 0, {}
  local full = false
  -- Flows that have nothing due step out of the line; so many at the most.
  local visits = 2 * limit + 16
  while not full do
    local id = call('ZRANGE', turns.line, 0, 0)[1]
    if not id then break end
    if room == 0 or visits == 0 then
      more = true
      break
    end
    visits = visits - 1
    local flow = read_flow(id)
    local keys, armed, fresh = nil, nil, nil
    if flow then keys, armed, fresh = due_rows(flow, room) end
    if not keys then
      leave(turns, id)
    elseif #keys == 0 then
      rest(turns, id, armed)
    else
      local left = #keys > room
      keys[room + 1] = nil
      local rows, taken = of_rows('rows', id, flow.manifest), {}
      for _, key in ipairs(keys) do
        local row = call('HGET', rows, key) or ''
        if name == 'reconcile' then bytes = bytes + #row end
        if bytes > MOST_BYTES and (#taken > 0 or #served > 0) then
          left, full = true, true
          break
        end
        taken[#taken + 1] = { key = key, row = row }
        if fresh then call('ZREM', fresh, key) end
        call('ZADD', armed, now, key)
      end
      room = room - #taken
      table.sort(taken, function(one, other) return before(one.key, other.key) end)
      for _, each in ipairs(taken) do
        local n = #answer
        answer[n + 1], answer[n + 2], answer[n + 3], answer[n + 4] = id, flow.manifest, each.key, each.row
        if name == 'cascade' then answer[n + 5] = math.max(0, now - flow.closed_at) end
      end
      call('ZREM', turns.line, id)
      served[#served + 1] = { id = id, left = left, armed = armed }
      if left then more = true end
    end
  end
  for _, flow in ipairs(served) do
    if flow.left then line_up(turns, flow.id) else rest(turns, flow.id, flow.armed) end
  end
  return answer
end

local reconcile, cascade = sweep('reconcile'), sweep('cascade')
return { more and 1 or 0, reconcile, cascade }
