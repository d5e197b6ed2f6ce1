-- Puts a failed job back to `waiting` with a fresh budget.
--
-- ARGV: now, id. Answers `ok`, `unknown`, `corrupt` or the letter of its state.

local id = ARGV[2]
local job = find(id)
if not job then return 'unknown' end
if job.corrupt then return 'corrupt' end
if job.state ~= 'f' then return job.state end

local kind = kind_of(job.kind)
-- The ledger entry that is folded into the end goes to the ledger.
local over = call('GET', P .. ':end:' .. id)
local _, _, _, _, _, _, _, _, _, outcome, flags, _, at = unpack_struct(END .. 'Hc0', over)
local closes_run = math.floor(flags / 4) % 2 == 1
local has_exit = math.floor(flags / 2) % 2 == 1
push(P .. ':ledger:' .. id, pack('>I4c1I6I6B', job.recorded, outcome,
  closes_run and job.processed_at or NONE, job.finished_at, has_exit and 1 or 0)
  .. (has_exit and sub(over, at) or ''))

local member = job.seq .. id
count(kind.queue, 'f', -1)
zrem(history(kind.name, 'f'), member)
zrem(spared(kind.name, 'f'), member)
zrem(P .. ':unspare', id)
zrem(P .. ':expiring', member)
del(P .. ':end:' .. id)

job.state, job.seq, job.run_at, job.processed_at = 'w', draw_seq(), now, NONE
job.made, job.stalled, job.cancel = 0, 0, false
job.flow = call('HEXISTS', P .. ':flows', id) == 1
file(job)
flush()
return 'ok'
