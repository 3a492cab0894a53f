/** The presence of members on a real store, in real time. */
import { test, type TestContext } from 'vitest'
import { Elector, members, type ElectorOptions, type LeaseStore } from '../../../src/index.ts'
import { cuttable } from '../../cuttable-store.ts'

/** Long enough that a busy machine does not cost a member its seat. */
const leaseDurationMs = 4_000
const patience = { timeout: 25_000, interval: 100 }

let groups = 0

/** How a group of processes uses a store. */
interface PresenceSuiteOptions {
  /** Opens the handle of the process with this identity. Default: like every other handle. */
  readonly openFor?: ((identity: string) => LeaseStore | Promise<LeaseStore>) | undefined
  /** The identity of a process as the tests read it. Default: the identity itself. */
  readonly shownAs?: ((identity: string) => string) | undefined
  /** The lease of each process, for a store with slow calls. The test that waits for an expiry is then left out. */
  readonly longLeaseMs?: number | undefined
}

/** Tests of one store. `open` opens one more handle to the same data. */
export function presenceSuite(
  name: string,
  open: () => LeaseStore | Promise<LeaseStore>,
  { openFor = open, shownAs = (identity) => identity, longLeaseMs }: PresenceSuiteOptions = {},
): void {
  const scene = async ({ expect, onTestFinished }: TestContext) => {
    const group = `group-${++groups}`
    const store = await open()
    onTestFinished(() => store.close?.())
    const start = async (identity: string, options: Partial<ElectorOptions> = {}) => {
      const handle = await openFor(identity)
      const line = { isCut: false }
      const elector = new Elector({
        store: cuttable(handle, line),
        election: group,
        identity,
        leaseDurationMs: longLeaseMs ?? leaseDurationMs,
        present: true,
        log: false,
        ...options,
      })
      onTestFinished(async () => {
        line.isCut = false
        await elector.stop()
        await handle.close?.()
      })
      elector.start()
      await expect.poll(() => elector.explain().seat, patience).toBeTypeOf('number')
      return { elector, line }
    }
    const list = async (observeMs?: number) =>
      (await members(store, group, { observeMs })).map(({ seat, identity }) => `${seat} ${identity}`)
    return { group, store, start, list }
  }

  test.concurrent(`members() shows the leader and the standbys on ${name}, and a released seat is taken again`, async (context) => {
    const { expect } = context
    const { group, store, start, list } = await scene(context)
    const first = await start('a', { metadata: { zone: 'az-a' }, generation: 7 })
    await start('b')
    await start('c')
    expect(await list()).toEqual(['0 a', `1 ${shownAs('b')}`, `2 ${shownAs('c')}`])
    expect((await members(store, group))[0]).toMatchObject({
      identity: 'a',
      metadata: { zone: 'az-a' },
      generation: 7,
      eligible: true,
      leads: true,
    })
    await first.elector.stop()
    await expect.poll(() => list(), patience).toEqual([`1 ${shownAs('b')}`, `2 ${shownAs('c')}`])
    await start('d')
    expect(await list()).toEqual([`0 ${shownAs('d')}`, `1 ${shownAs('b')}`, `2 ${shownAs('c')}`])
  })

  test
    .skipIf(longLeaseMs !== undefined)
    .concurrent(
      `a process that is cut off from ${name} is no longer a member after one lease, and its seat is reused`,
      async (context) => {
        const { expect } = context
        const { group, store, start } = await scene(context)
        const cut = await start('a', { maxMembers: 2 })
        await start('b', { maxMembers: 2 })
        cut.line.isCut = true
        await expect
          .poll(async () => {
            const found = await members(store, group, { observeMs: leaseDurationMs })
            return found.filter(({ live }) => live).map(({ identity }) => identity)
          }, patience)
          .toEqual([shownAs('b')])
        const { elector } = await start('c', { maxMembers: 2 })
        expect(elector.explain().seat).toBe(0)
        expect(cut.elector.explain().seat).toBeUndefined()
      },
    )

  test.concurrent(`processes that start together on ${name} take different seats`, async (context) => {
    const { expect } = context
    const { start } = await scene(context)
    const started = await Promise.all(['a', 'b', 'c', 'd', 'e'].map((identity) => start(identity)))
    const seats = started.map(({ elector }) => elector.explain().seat)
    expect(seats.toSorted()).toEqual([0, 1, 2, 3, 4])
  })
}
