-- Reads a page of jobs.
--
-- ARGV: now, then ids. Answers five lists: records, live texts, ends, progress,
-- flows, each in the order of the ids.

local keys, ids = {}, {}
for i = 2, #ARGV do
  ids[i - 1] = ARGV[i]
  keys[i - 1] = P .. ':job:' .. ARGV[i]
  keys[#ARGV + i - 2] = P .. ':end:' .. ARGV[i]
end
local texts = call('MGET', unpack(keys))
local records, ends = {}, {}
for i = 1, #ids do
  records[i], ends[i] = texts[i], texts[#ids + i]
end
return {
  records,
  call('HMGET', P .. ':live', unpack(ids)),
  ends,
  call('HMGET', P .. ':progress', unpack(ids)),
  call('HMGET', P .. ':flows', unpack(ids)),
}
