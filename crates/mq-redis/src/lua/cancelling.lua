-- What a cancel does to a job that is not over, whoever asks for it.

-- Answers 1 if the job has ended, 2 if its worker will hear of it.
local function cancel_job(job)
  if job.state == 'a' then
    job.cancel = true
    hset(P .. ':live', job.id, live_text(job))
    return 2
  end
  if job.state == 'p' then close_flow(job.id) end
  finish(job, { state = 'x', outcome = 'x' })
  return 1
end
