-- Applies a page of reports: all to their rows, then each flow settles at most
-- once.
--
-- ARGV: now, then for each: flow id, manifest, child key, outcome (`c`, `f` or
-- `x`), flags (1 has an exit, 2 a reason), reason, exit.
--
-- Answers for each: 0 not applied, 1 applied, 2 applied and settled its flow.

local flows, answers, order = {}, {}, {}

local function flow_of(id)
  if flows[id] == nil then flows[id] = read_flow(id) or false end
  return flows[id]
end

local place = 0
for i = 2, #ARGV, 7 do
  place = place + 1
  local id, manifest, key, outcome, flags = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3], tonumber(ARGV[i + 4])
  answers[place] = 0
  local flow = flow_of(id)
  if flow and flow.manifest == manifest and not flow.closed then
    local rows = of_rows('rows', id, manifest)
    local row = call('HGET', rows, key)
    if row and row_status(row) == 'p' then
      local exit = flags % 2 == 1 and ARGV[i + 6] or nil
      local reason = flags >= 2 and ARGV[i + 5] or nil
      -- A row that cannot be read must not stop the others half way.
      local is_sound, settled = pcall(settled_row, row, outcome, reason, exit)
      if is_sound then
        call('HSET', rows, key, settled)
        call('ZREM', of_rows('pending', id, manifest), key)
        flow.pending = flow.pending - 1
        flow[outcome] = flow[outcome] + 1
        if not flow.last then order[#order + 1] = id end
        flow.last = place
        if outcome == 'f' and not flow.failure then flow.failure, flow.failed_key = place, key end
        answers[place] = 1
      end
    end
  end
end

for _, id in ipairs(order) do write_flow(flows[id]) end
look_who_is_watched(order)
for _, id in ipairs(order) do
  local flow = flows[id]
  local job = find(id)
  if job and job.state == 'p' then
    if flow.fail_fast and flow.failure then
      close_flow(id)
      finish(job, {
        state = 'f',
        outcome = 'f',
        reason = 'flow child "' .. flow.failed_key .. '" failed',
      })
      answers[flow.failure] = 2
    elseif flow.pending == 0 then
      leave(TURNS.reconcile, id)
      resume(job)
      answers[flow.last] = 2
    end
  end
end
settle_keeps()
return answers
