import { expect, test } from 'vitest'
import type { StoredLease } from '../../../src/stores/file/file-format.ts'
import { LeaseFileWatch } from '../../../src/stores/file/lease-file-watch.ts'
import type { Unreached } from '../../../src/stores/file/liveness-socket.ts'
import { fakeClock } from '../../../../testing/src/index.ts'

const record = {
  election: 'jobs',
  holder: 'ada',
  attempt: 'one',
  term: 1,
  leaseDurationMs: 15_000,
  version: '1',
  released: false,
  metadata: {},
  checkpoint: '',
}
const lease = { record, clock: {}, signOfLife: { path: 'one.sock', device: '1', inode: '2' } } as unknown as StoredLease

/** A watch of one lease whose holder's socket answers as listed. After that, it repeats the last answer. */
function watchOf(...answers: Unreached[]) {
  const clock = fakeClock()
  let asked = 0
  const watch = new LeaseFileWatch(
    {
      clock,
      load: async () => lease,
      reach: async () => answers[Math.min(asked++, answers.length - 1)] ?? 'unknown',
      listen: async () => () => {},
    },
    () => {},
  )
  const seen: (boolean | undefined)[] = []
  const following = (async () => {
    for await (const shown of watch) seen.push(shown?.released)
  })()
  return { clock, seen, asked: () => asked, end: async () => (watch.end(), following) }
}

test('a watch reports the death of a holder that reset the first connections', async () => {
  const { clock, seen, end } = watchOf('closed', 'closed', 'dead')
  await clock.advance(100)
  expect(seen).toEqual([false, true])
  await end()
})

test('a watch checks a holder that closes every connection at most once per second in the long run', async () => {
  const { clock, seen, asked, end } = watchOf('closed')
  await clock.advance(10_000)
  const before = asked()
  await clock.advance(60_000)
  expect([seen, asked() - before]).toEqual([[false], 60])
  await end()
})

test('a watch checks a holder only once when its socket does not show whether the holder is alive', async () => {
  const { clock, seen, asked, end } = watchOf('unknown')
  await clock.advance(60_000)
  expect([seen, asked()]).toEqual([[false], 1])
  await end()
})
