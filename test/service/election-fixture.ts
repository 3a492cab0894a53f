import { expect, test, vi } from 'vitest'
import { Elector, type ElectorOptions } from '../../packages/tenure/src/engine/elector.ts'
import type { ElectionEvent } from '../../packages/tenure/src/engine/events.ts'
import { serviceStore, type ServiceStoreOptions } from '../../packages/tenure/src/stores/service/index.ts'
import { startProxy, type Proxy } from '../servers/proxy.ts'
import type { RunningServer } from '../servers/server.ts'
import { serve } from './serve.ts'

/** Short, but with slack for a busy machine: renewed every second. */
export const timings = { leaseDurationMs: 3_000, renewIntervalMs: 1_000, renewDeadlineMs: 2_000, retryIntervalMs: 400 }
/** Timings of leaders that must keep their lease even on a busy machine. */
export const patient = { leaseDurationMs: 9_000, renewIntervalMs: 1_000, renewDeadlineMs: 7_000, retryIntervalMs: 500 }

export type TimedEvent = ElectionEvent & { readonly atMs: number }

/** An elector of a test, and its reports. */
export interface Candidate {
  readonly elector: Elector
  readonly events: TimedEvent[]
  /** Resolves with the first event of this type since a moment. */
  event<Type extends TimedEvent['type']>(type: Type, sinceMs?: number): Promise<Extract<TimedEvent, { type: Type }>>
  /** Returns the codes of all errors that it reported. */
  codes(): unknown[]
}

interface Belief {
  readonly term: number
  readonly fromMs: number
  toMs: number
}

const soon = { timeout: 25_000, interval: 5 }

export const nowMs = () => performance.now()

export function until(condition: () => boolean): Promise<unknown> {
  return vi.waitUntil(condition, soon)
}

let scenes = 0

/** A test with its own election. Everything that it opens is closed when it ends. */
export const sceneTest = test.extend<{ scene: Scene }>({
  // oxlint-disable-next-line no-empty-pattern
  scene: async ({}, use) => {
    const scene = new Scene()
    await use(scene)
    await scene.end()
  },
})

/** Candidates in one election. */
export class Scene {
  readonly election = `election-${++scenes}`
  readonly beliefs: Belief[] = []
  readonly #ends: (() => Promise<unknown> | void)[] = []

  /** Starts a service for this test only. */
  async service(...more: string[]): Promise<RunningServer> {
    const service = await serve(...more)
    this.#ends.push(() => service.stop())
    return service
  }

  /** Starts a proxy in front of a service. */
  async network(service: RunningServer): Promise<Proxy & { readonly url: string }> {
    const proxy = await startProxy(service.port)
    this.#ends.push(() => proxy.stop())
    // The proxy is not copied, because its counters change.
    return Object.create(proxy, { url: { value: `http://127.0.0.1:${proxy.port}` } }) as Proxy & { url: string }
  }

  stand(identity: string, at: ServiceStoreOptions | string, options: Partial<ElectorOptions> = {}): Candidate {
    const store = serviceStore(typeof at === 'string' ? { url: at } : at)
    const events: TimedEvent[] = []
    const onEvent = (event: ElectionEvent) => {
      events.push({ ...event, atMs: nowMs() })
      if (event.type === 'elected') this.#believe(elector, event.term)
    }
    const { election } = this
    const elector = new Elector({ store, election, identity, ...timings, ...options, observer: { onEvent } })
    elector.start()
    this.#ends.push(async () => {
      await elector.stop()
      await store.close?.()
    })
    const find = (type: string, sinceMs: number) => events.find((one) => one.type === type && one.atMs >= sinceMs)
    return {
      elector,
      events,
      async event(type, sinceMs = 0) {
        await until(() => find(type, sinceMs) !== undefined)
        return find(type, sinceMs) as never
      },
      codes: () => events.flatMap((event) => ('error' in event ? [(event.error as { code?: unknown }).code] : [])),
    }
  }

  /** Starts a leader, and a standby that has seen it. */
  async pair(at: readonly [string, string], options: Partial<ElectorOptions> = {}) {
    const leader = this.stand('ada', at[0], options)
    await leader.event('elected')
    const standby = this.stand('bob', at[1], options)
    await until(() => standby.elector.leader()?.holder === 'ada')
    await leader.event('renewed', nowMs())
    return { leader, standby }
  }

  #believe(elector: Elector, term: number): void {
    const belief = { term, fromMs: nowMs(), toMs: Infinity }
    this.beliefs.push(belief)
    void elector.waitForLeadership().then(({ signal }) => {
      const end = () => void (belief.toMs = nowMs())
      if (signal.aborted) end()
      else signal.addEventListener('abort', end, { once: true })
    })
  }

  /** Ends everything. Checks that no two candidates led at the same time and that terms rose. */
  async end(): Promise<void> {
    for (const end of this.#ends.toReversed()) await end()
    const [first, ...later] = this.beliefs.toSorted((one, other) => one.fromMs - other.fromMs)
    later.reduce((before, next) => {
      expect(before?.toMs).toBeLessThanOrEqual(next.fromMs)
      expect(before?.term).toBeLessThan(next.term)
      return next
    }, first)
  }
}
