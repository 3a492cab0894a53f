import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { createElections, Elector, Manager, type ElectionEvent } from '../../src/index.ts'
import { memoryStore } from '../../src/stores/memory/index.ts'
import { memoryTtlStorage } from '../../src/store-kit/memory-ttl-storage.ts'
import { LeaderElector } from '../../src/api/leader-elector.ts'
import { fakeClock } from '../../../testing/src/index.ts'

type Absence = 'stands still' | 'refuses'

/** A server in memory that can be unavailable for a while. */
function scene() {
  const clock = fakeClock()
  let awayUntilMs = 0
  let absence: Absence = 'stands still'
  const serve = async <T>(answer: () => Promise<T>): Promise<T> => {
    const leftMs = awayUntilMs - clock.monotonicMs()
    if (leftMs > 0 && absence === 'refuses') throw new Error('connect ECONNREFUSED')
    if (leftMs > 0) await new Promise<void>((resolve) => void clock.setTimer(leftMs, resolve))
    return answer()
  }
  const behind = <T extends object>(inner: T): T =>
    new Proxy(inner, {
      get(target, name) {
        const member: unknown = Reflect.get(target, name)
        if (typeof member !== 'function' || name === 'watch') return name === 'watch' ? undefined : member
        return (...args: unknown[]) => serve(async () => Reflect.apply(member, target, args) as unknown)
      },
    })
  return {
    clock,
    store: behind(memoryStore({ clock })),
    storage: behind(memoryTtlStorage({ clock })),
    leave(kind: Absence, ms: number) {
      absence = kind
      awayUntilMs = clock.monotonicMs() + ms
    },
  }
}

type Scene = ReturnType<typeof scene>
const named = { leaseName: 'e', leaseNamespace: 'n', identity: 'a', callbacks: { onStartedLeading() {} } }
const leaseDurationMs = 15_000

/** Starts to lead in the style of a table row, and calls onLost when leadership ends. */
const styles: Record<string, (at: Scene, onLost: () => void) => unknown> = {
  '`Elector`, `lead`, `tenure run`, `tenure sidecar`': ({ store, clock }, onLost) =>
    new Elector({ store, clock, election: 'e', leaseDurationMs, observer: lost(onLost) }).start(),
  '`Manager`': ({ store, clock }, onLost) =>
    new Manager({ store, clock, election: 'e', identity: 'a', leaseDurationMs, observer: lost(onLost) }).start(),
  '`LeaderElector`': ({ store, clock }, onLost) =>
    new LeaderElector({ ...named, store, clock, leaseDurationMs, observer: lost(onLost) }).run(),
  '`LeaderElector` with `renewIntervalMs: 5_000`': ({ store, clock }, onLost) =>
    new LeaderElector({ ...named, store, clock, renewIntervalMs: 5_000, observer: lost(onLost) }).run(),
  '`createElections`': async ({ storage, clock }, onLost) => {
    const elections = createElections<string, string>({ storage, clock, log: false })
    const signal = await elections.acquireLeadership('e', 'a', { durationMs: leaseDurationMs })
    signal?.addEventListener('abort', onLost)
  },
}

function lost(onLost: () => void) {
  return { onEvent: ({ type }: ElectionEvent) => void (type === 'lost' && onLost()) }
}

async function survives(style: string, kind: Absence, ms: number, phaseMs: number): Promise<boolean> {
  const at = scene()
  let isLost = false
  void styles[style]?.(at, () => (isLost = true))
  await at.clock.advance(30_000 + phaseMs)
  at.leave(kind, ms)
  await at.clock.advance(30_000)
  return !isLost
}

/** The longest outage in seconds, in steps of a tenth, that never ends leadership, whenever it begins. */
async function patienceOf(style: string, kind: Absence): Promise<number> {
  for (let tenths = 1; ; tenths++) {
    // An outage is worst when it begins just before or just after a scheduled action.
    for (const phaseMs of [0, 1, 1_499, 1_999, 2_000, 2_499, 4_999, 5_000, 7_499]) {
      if (!(await survives(style, kind, tenths * 100 - 10, phaseMs))) return (tenths - 1) / 10
    }
  }
}

const page = readFileSync(new URL('../../../../docs/explanation/timing.md', import.meta.url), 'utf8')
const rows = [...(page.split('## Outage tolerance')[1]?.split('## ')[0] ?? '').matchAll(/^\| (`.*) \|$/gm)].map(
  ([, row = '']) => row.split(' | '),
)

test('the outage table in timing.md lists every style', () => {
  expect(rows.map(([style]) => style)).toEqual(Object.keys(styles))
})

test.each(rows)(
  '%s tolerates the store outage that timing.md states',
  async (style = '', _every, _after, still, refuses) => {
    expect(`${await patienceOf(style, 'stands still')} s`).toBe(still)
    expect(`${await patienceOf(style, 'refuses')} s`).toBe(refuses)
  },
)
