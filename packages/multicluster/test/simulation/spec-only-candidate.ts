/**
 * A spec-only candidate with the timing of client-go's `LeaderElector`. It reads the resource every retry period, sends
 * a heartbeat when the lease looks free, waits until the status confirms the generation that it wrote, and counts the
 * lease from the moment it reads the confirmation.
 */
import { setMaxListeners } from 'node:events'
import type { LeaseRecord } from '../../../tenure/src/engine/lease-store.ts'
import type { MultiClusterLease } from '../../../tenure/src/multicluster/protocol/resource-types.ts'
import type { ResourceKey, Resources } from '../../../tenure/src/multicluster/resources.ts'
import type { Participant } from '../../../testing/src/simulation/checker.ts'
import type { Link } from '../../../testing/src/simulation/link.ts'
import type { Machine } from '../../../testing/src/simulation/machine.ts'
import type { Scene } from './scene.ts'

export class SpecOnlyCandidate implements Participant {
  readonly name: string
  readonly machine: Machine
  readonly link: Link
  term = 0
  elected = 0
  readonly #scene: Scene
  readonly #resources: Resources
  readonly #key: ResourceKey
  readonly #leaseMs: number
  readonly #label: string
  #observed = ''
  #observedAtMs = -Infinity
  #confirmedAtMs = -Infinity
  #leads = false
  #stopped = false
  #writes = 0

  constructor(options: {
    name: string
    label: string
    scene: Scene
    machine: Machine
    link: Link
    resources: Resources
    key: ResourceKey
  }) {
    this.name = options.name
    this.#label = options.label
    this.#scene = options.scene
    this.machine = options.machine
    this.link = options.link
    this.#resources = options.resources
    this.#key = options.key
    // The spec contains only whole seconds.
    this.#leaseMs = Math.ceil(options.scene.leaseDurationMs / 1000) * 1000
  }

  get #retryMs(): number {
    return (this.#leaseMs * 2) / 15
  }

  get #deadlineMs(): number {
    return (this.#leaseMs * 10) / 15
  }

  /** True from the confirmation until the time when client-go's renewal loop would have stopped. */
  believes(): boolean {
    if (!this.#leads || this.machine.state !== 'running') return false
    return this.#nowMs() < this.#confirmedAtMs + this.#retryMs + this.#deadlineMs
  }

  /** Always false: this candidate stops believing that it leads before it releases its lease. */
  hasReleased(_record: LeaseRecord): boolean {
    return false
  }

  runsWorkOf(): boolean {
    return false
  }

  start(): void {
    void this.#campaign()
  }

  /** Releases the lease as client-go does, with an empty identity. */
  async stop(): Promise<void> {
    if (this.#stopped) return
    this.#stopped = true
    const led = this.#leads
    this.#leads = false
    if (led) await this.#within(5_000, (call) => this.#patch('', call)).catch(() => undefined)
  }

  async #campaign(): Promise<void> {
    while (!this.#stopped) {
      if (await this.#tryOnce(this.#deadlineMs)) {
        this.#note('is elected')
        this.elected += 1
        await this.#renew()
        this.#note('has lost')
      }
      await this.#wait(this.#retryMs * (1 + 1.2 * this.machine.clock.random()))
    }
  }

  async #renew(): Promise<void> {
    for (;;) {
      await this.#wait(this.#retryMs)
      const endsAtMs = this.#nowMs() + this.#deadlineMs
      for (;;) {
        if (this.#stopped) return
        const leftMs = Math.min(endsAtMs, this.#confirmedAtMs + this.#retryMs + this.#deadlineMs) - this.#nowMs()
        if (leftMs <= 0) {
          this.#leads = false
          return
        }
        if (await this.#tryOnce(leftMs)) break
        await this.#wait(Math.min(this.#retryMs, Math.max(1, endsAtMs - this.#nowMs())))
      }
    }
  }

  /**
   * Reads the resource. Sends a heartbeat if the lease looks free or belongs to this candidate, and waits for the
   * confirmation.
   */
  async #tryOnce(forMs: number): Promise<boolean> {
    try {
      return await this.#within(forMs, async (call) => {
        const found = await this.#resources.get(this.#key, call)
        const holder = found?.status.globalHolderIdentity ?? ''
        this.#observe(found)
        const isOwn = holder === this.name
        if (holder !== '' && !isOwn && this.#nowMs() < this.#observedAtMs + this.#leaseMs) return false
        const written = await this.#patch(this.name, call)
        return written ? this.#confirmed(written, call) : false
      })
    } catch {
      return false
    }
  }

  async #confirmed({ uid, generation }: MultiClusterLease, call: { signal: AbortSignal }): Promise<boolean> {
    for (;;) {
      const found = await this.#resources.get(this.#key, call)
      if (call.signal.aborted || this.#stopped) return false
      if (found?.uid !== uid || found.generation !== generation) return false
      if (found.status.observedGeneration === generation) {
        this.#observe(found)
        if (found.status.globalHolderIdentity !== this.name) return false
        this.term = found.status.term ?? 0
        this.#leads = true
        this.#confirmedAtMs = this.#nowMs()
        return true
      }
      await this.#wait(200)
    }
  }

  #observe(found: MultiClusterLease | undefined): void {
    const { globalHolderIdentity, renewTime, term } = found?.status ?? {}
    const seen = JSON.stringify([globalHolderIdentity, renewTime, term])
    if (seen === this.#observed) return
    this.#observed = seen
    this.#observedAtMs = this.#nowMs()
  }

  async #patch(identity: string, call: { signal: AbortSignal }): Promise<MultiClusterLease | undefined> {
    this.#writes += 1
    const micros = String(this.#writes % 1000).padStart(3, '0')
    const spec = {
      holderIdentity: identity,
      leaseDurationSeconds: this.#leaseMs / 1000,
      renewTime: new Date(this.machine.clock.wallMs()).toISOString().replace('Z', `${micros}Z`),
    }
    const patched = await this.#resources.patchSpec(this.#key, { ...spec, requests: {} }, call)
    return patched ?? (await this.#resources.create(this.#key, { ...spec, requests: {} }, undefined, call))
  }

  async #within<T>(ms: number, work: (call: { signal: AbortSignal }) => Promise<T>): Promise<T> {
    const controller = new AbortController()
    // Each read adds a listener, and there are many reads.
    setMaxListeners(0, controller.signal)
    const timer = this.machine.clock.setTimer(ms, () => controller.abort(new Error('late')))
    try {
      return await work({ signal: controller.signal })
    } finally {
      timer.cancel()
    }
  }

  #nowMs(): number {
    return this.machine.clock.monotonicMs()
  }

  #wait(ms: number): Promise<void> {
    return new Promise((resolve) => this.machine.clock.setTimer(ms, resolve))
  }

  #note(what: string): void {
    this.#scene.timeline.add(this.#scene.world.nowMs, this.#label, `${what}, term ${this.term}`)
  }
}
