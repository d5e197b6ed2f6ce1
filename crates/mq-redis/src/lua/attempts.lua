-- Reads a job's ledger: the entries of earlier runs, oldest first, and the
-- texts that hold the last one if the job is over.
--
-- ARGV: now, id. Answers: the entries; the record; the end.

local id = ARGV[2]
return {
  call('LRANGE', P .. ':ledger:' .. id, 0, -1),
  call('GET', P .. ':job:' .. id),
  not call('HGET', P .. ':live', id) and call('GET', P .. ':end:' .. id),
}
