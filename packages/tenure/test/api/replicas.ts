import type { ElectionEvent, Leadership, LeaseStore, StoreElectorOptions } from '../../src/index.ts'
import { memoryStore } from '../../src/stores/memory/index.ts'
import { LeaderElector } from '../../src/api/leader-elector.ts'
import { fakeClock, type FakeClock } from '../../../testing/src/index.ts'
import { faultyStore, withoutWatch, type FaultyStore } from '../faulty-store.ts'
import { follow, type Outcome } from '../promise-outcome.ts'

export const election = 'default/my-app'

/** One LeaderElector of a test, with everything that it reported. */
export interface Replica {
  readonly elector: LeaderElector
  readonly store: FaultyStore
  /** The calls of its callbacks, in order. */
  readonly callbackCalls: string[]
  readonly events: ElectionEvent[]
  readonly run: Outcome<void>
  /** The leadership that its latest onStartedLeading got. */
  leadership(): Leadership | undefined
  abort(): void
}

export type More = Partial<StoreElectorOptions> & { once?: boolean; watch?: boolean }

export function start(clock: FakeClock, memory: LeaseStore, identity: string, more: More = {}): Replica {
  const store = faultyStore(memory, clock)
  const { once = false, watch, callbacks, ...options } = more
  if (watch === false) withoutWatch(store)
  const callbackCalls: string[] = []
  const events: ElectionEvent[] = []
  let leadership: Leadership | undefined
  const elector = new LeaderElector({
    store,
    leaseName: 'my-app',
    leaseNamespace: 'default',
    identity,
    clock,
    observer: { onEvent: (event) => void events.push(event) },
    ...options,
    callbacks: {
      async onStartedLeading(signal, given) {
        leadership = given
        callbackCalls.push(`started ${given.term}`)
        await callbacks?.onStartedLeading(signal, given)
        callbackCalls.push(`work ends${signal.aborted ? ' aborted' : ''}`)
      },
      onStoppedLeading() {
        callbackCalls.push('stopped')
        return callbacks?.onStoppedLeading?.()
      },
      onNewLeader(leader) {
        callbackCalls.push(`leader ${leader}`)
        return callbacks?.onNewLeader?.(leader)
      },
    },
  })
  const controller = new AbortController()
  const run = follow(elector.run({ signal: controller.signal, once }))
  return { elector, store, callbackCalls, events, run, leadership: () => leadership, abort: () => controller.abort() }
}

export function fleet(count: number, more: More = {}) {
  const clock = fakeClock()
  const memory = memoryStore({ clock })
  const replicas = Array.from({ length: count }, (_, number) => start(clock, memory, `pod-${number}`, more))
  const leaders = () => replicas.filter(({ elector }) => elector.isLeader())
  return { clock, memory, replicas, leaders }
}

export function lone(more: More = {}) {
  const { clock, memory, replicas } = fleet(1, more)
  const [replica] = replicas
  if (!replica) throw new Error('no replica')
  return { clock, memory, ...replica }
}

export const untilAborted = (signal: AbortSignal) =>
  new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }))
