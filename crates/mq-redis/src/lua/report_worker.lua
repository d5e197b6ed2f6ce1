-- Stores what a worker reports of itself, and forgets those that are gone.
--
-- ARGV: now, how long a worker is remembered, id, record.

local gone = call('ZRANGE', P .. ':workers', '-inf', now - tonumber(ARGV[2]), 'BYSCORE', 'LIMIT', 0, PAGE)
for _, id in ipairs(gone) do
  zrem(P .. ':workers', id)
  hdel(P .. ':worker', id)
end
flush()
call('ZADD', P .. ':workers', now, ARGV[3])
call('HSET', P .. ':worker', ARGV[3], ARGV[4])
return 1
