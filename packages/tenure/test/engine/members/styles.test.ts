import { expect, test } from 'vitest'
import { fakeClock } from '../../../../testing/src/index.ts'
import { lead, LeaderElector, Manager, members, memoryStore } from '../../../src/index.ts'

const options = { present: true, generation: 3, maxMembers: 5 }
const listed = { seat: 0, identity: 'a', generation: 3, leads: true, live: true }

function scene() {
  const clock = fakeClock()
  const store = memoryStore({ clock })
  return { clock, store, list: (group: string) => members(store, group, { clock }) }
}

test('a process that leads through lead() is a member until its work has ended', async () => {
  const { clock, store, list } = scene()
  let finish = (): void => undefined
  const work = () => new Promise<void>((resolve) => (finish = resolve))
  const led = lead({ store, election: 'e', identity: 'a', clock, ...options }, work)
  await clock.advance(1_000)
  expect(await list('e')).toMatchObject([listed])
  finish()
  await clock.advance(1_000)
  await led
  expect(await list('e')).toEqual([])
})

test('a process with a Manager is a member until the manager stops', async () => {
  const { clock, store, list } = scene()
  const manager = new Manager({ store, election: 'e', identity: 'a', clock, ...options })
  manager.start()
  await clock.advance(1_000)
  expect(await list('e')).toMatchObject([listed])
  const stopped = manager.stop()
  await clock.advance(1_000)
  await stopped
  expect(await list('e')).toEqual([])
})

test('a process with a LeaderElector is a member until its run is aborted', async () => {
  const { clock, store, list } = scene()
  const elector = new LeaderElector({
    store,
    leaseName: 'my-app',
    leaseNamespace: 'jobs',
    identity: 'a',
    clock,
    callbacks: { onStartedLeading: () => undefined },
    ...options,
  })
  const ending = new AbortController()
  const ran = elector.run({ signal: ending.signal })
  await clock.advance(1_000)
  expect(await list('jobs/my-app')).toMatchObject([listed])
  ending.abort()
  await clock.advance(1_000)
  await ran
  expect(await list('jobs/my-app')).toEqual([])
})
