import { expect, test } from 'vitest'
import { JobLog } from '../../src/jobs/job-log.ts'
import { jobStateOf } from '../../src/jobs/job-state.ts'
import { fakeClock, fakeLeadership } from '../../../testing/src/index.ts'

const nothing = () => undefined

test('a job log keeps the newest ten runs, in memory and in the record, after thousands of runs', async () => {
  const leadership = fakeLeadership()
  const book = new JobLog(leadership, fakeClock(), nothing)
  for (let slot = 1; slot <= 2_000; slot += 1) {
    if (slot % 3 === 0) await book.leaveOut(slot)
    await book.run({ scheduledMs: slot, head: { lastRunMs: slot }, perform: async () => ({ result: 'succeeded' }) })
  }
  expect(book.note.runs).toHaveLength(10)
  expect(jobStateOf(leadership.checkpoint)?.runs).toHaveLength(10)
  expect(jobStateOf(leadership.checkpoint)?.lastRunMs).toBe(2_000)
})

test('a run does not begin after its leadership has ended', async () => {
  const leadership = fakeLeadership()
  const book = new JobLog(leadership, fakeClock(), nothing)
  leadership.lose()
  const perform = () => expect.unreachable('the run began')
  expect(await book.run({ scheduledMs: 1, perform })).toBeUndefined()
})
