import { deepEqual, equal, ok } from 'node:assert/strict'
import type { AcquireClaim, ElectionEvent, ElectorOptions, LeaseStore } from '../../../src/index.ts'
import { fakeClock } from '../../../../testing/src/index.ts'
import { call } from './elector-fixture.ts'
import type { Checks, Library } from './checks.ts'

const lease = 15_000

/** A candidate whose calls can be cut off from the store. Its acquires then arrive only when deliver() is called. */
function scene({ Elector, memoryStore }: Library, options: { readonly watch: boolean }) {
  const clock = fakeClock()
  const memory = memoryStore({ clock })
  const undelivered: AcquireClaim[] = []
  let cut: 'hang' | 'fail' | undefined
  let isAcquireAlone = false
  const through = async <T>(signal: AbortSignal, send: () => Promise<T>, isAcquire = false): Promise<T> => {
    if (!cut || (isAcquireAlone && !isAcquire)) return send()
    if (cut === 'fail') throw new Error('The connection was reset.')
    return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }))
  }
  const store: LeaseStore = {
    expiry: memory.expiry,
    terms: memory.terms,
    ...(options.watch && memory.watch && { watch: memory.watch.bind(memory) }),
    read: (election, { signal }) => through(signal, () => memory.read(election, call)),
    acquire(claim, { signal }) {
      if (cut) undelivered.push(claim)
      return through(signal, () => memory.acquire(claim, call), true)
    },
    renew: (claim, { signal }) => through(signal, () => memory.renew(claim, call)),
    release: (claim, { signal }) => through(signal, () => memory.release(claim, call)),
  }
  const events: ElectionEvent[] = []
  const observer = { onEvent: (event: ElectionEvent) => void events.push(event) }
  const common = { election: 'e', clock, observer } satisfies Partial<ElectorOptions>
  return {
    clock,
    memory,
    undelivered,
    events,
    elector: new Elector({ ...common, store, identity: 'me' }),
    other: new Elector({ store: memory, election: 'e', clock, identity: 'other' }),
    cutOff(how: 'hang' | 'fail', verbs: 'all' | 'acquire' = 'all') {
      cut = how
      isAcquireAlone = verbs === 'acquire'
    },
    heal() {
      cut = undefined
    },
    /** Delivers the oldest acquire that the network held up. */
    async deliver() {
      const [claim] = undelivered
      ok(claim, 'no acquire was held up')
      ok((await memory.acquire(claim, call)).ok, 'the late acquire was refused')
    },
  }
}

/** Checks of a grant that arrives after the candidate abandoned its acquire. */
export const lateGrants: Checks = {
  ...Object.fromEntries(
    (['hang', 'fail'] as const).map((how) => [
      `a late grant is recognized and released however long the candidate was cut off (calls ${how})`,
      async (library: Library) => {
        const s = scene(library, { watch: false })
        s.cutOff(how)
        s.elector.start()
        // Much longer than the remembered attempts could cover if each were retried for as long as allowed.
        await s.clock.advance(20 * lease)
        s.heal()
        await s.deliver()
        await s.clock.advance(lease / 2)
        ok(s.elector.isLeader(), 'the candidate waits for its own lease to expire')
        // No other candidate ever existed, so no other leader may be reported.
        const leaders = s.events.filter(({ type }) => type === 'new-leader' || type === 'elected')
        deepEqual(
          leaders.map((event) => ('record' in event ? [event.type, event.record.term] : [])),
          [
            ['new-leader', 2],
            ['elected', 2],
          ],
        )
        await Promise.all([s.elector.stop(), s.clock.advance(lease)])
        equal(s.clock.timers, 0)
      },
    ]),
  ),

  async 'an outage leaves a single attempt with an unknown outcome'(library) {
    const s = scene(library, { watch: true })
    s.cutOff('hang')
    s.elector.start()
    await s.clock.advance(20 * lease)
    equal(new Set(s.undelivered.map(({ attempt }) => attempt)).size, 1)
    await Promise.all([s.elector.stop(), s.clock.advance(lease)])
  },

  async 'a late grant is released even when another attempt has begun since'(library) {
    const s = scene(library, { watch: false })
    s.cutOff('hang', 'acquire')
    s.elector.start()
    while (new Set(s.undelivered.map(({ attempt }) => attempt)).size < 3) await s.clock.advance(1_000)
    await s.deliver()
    await s.clock.advance(lease / 2)
    equal((await s.memory.read('e', call))?.released, true)
    await Promise.all([s.elector.stop(), s.clock.advance(lease)])
  },

  async 'a standby that steps down releases a late grant of an attempt with an unknown outcome'(library) {
    const s = scene(library, { watch: true })
    s.other.start()
    await s.clock.advance(0)
    s.elector.start()
    await s.clock.advance(0)
    s.cutOff('fail')
    await Promise.all([s.other.stop(), s.clock.advance(lease / 100)])
    ok(s.undelivered.length > 0, 'the standby did not try to lead after the release')
    await Promise.all([s.elector.stepDown({ cooldownMs: 10 * lease }), s.clock.advance(0)])
    s.heal()
    await s.deliver()
    await s.clock.advance(0)
    equal((await s.memory.read('e', call))?.released, true, 'a standby in its cooldown keeps others from leading')
    await Promise.all([s.elector.stop(), s.clock.advance(lease)])
  },
}
