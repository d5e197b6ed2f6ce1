-- Changes a queue's settings.
--
-- ARGV: now, queue, paused (empty: as it is; 0 or 1), max_active (empty: as it
-- is; 0: none), and the rate: empty: as it is; 0: none; else its count, per, and
-- interval and lead as milliseconds and microseconds each.

local queue = ARGV[2]
local s = read_queue(queue) or {
  paused = false, count = 0, per = 0, interval_ms = 0, interval_us = 0, lead_ms = 0, lead_us = 0,
  tat_ms = 0, tat_us = 0,
}
local was_paused, was_most, was_count, was_per = s.paused, s.max_active, s.count, s.per

if ARGV[3] ~= '' then s.paused = ARGV[3] == '1' end
if ARGV[4] ~= '' then
  local most = tonumber(ARGV[4])
  s.max_active = most > 0 and most or nil
end
if ARGV[5] ~= '' then
  local starts, per = tonumber(ARGV[5]), tonumber(ARGV[6] or 0)
  -- The rate it has is no new one: it does not start afresh.
  if starts ~= s.count or per ~= s.per then
    s.count, s.per = starts, per
    s.interval_ms, s.interval_us = tonumber(ARGV[7] or 0), tonumber(ARGV[8] or 0)
    s.lead_ms, s.lead_us = tonumber(ARGV[9] or 0), tonumber(ARGV[10] or 0)
    s.tat_ms, s.tat_us = 0, 0
  end
end

if s.paused or s.max_active or s.count > 0 then
  write_queue(queue, s)
else
  hdel(P .. ':queues', queue)
end
local resumed = was_paused and not s.paused
local raised = was_most and (not s.max_active or s.max_active > was_most)
local rerated = was_count > 0 and (s.count ~= was_count or s.per ~= was_per)
if resumed or raised or rerated then wake(queue) end
flush()
return 1
