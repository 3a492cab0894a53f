import type { Timer } from 'tenure'
import type { Verdict } from '../state.ts'
import type { Core } from './core.ts'
import { ExpiryQueue } from './expiry-queue.ts'
import { type Group, type Lease } from './group.ts'
import { wakeLine } from './line.ts'

const retryMs = 1_000
/** A million leases may run out at once; each end is a write that takes memory until it is done. */
const mostAtOnce = 2_000

/** How leases end. Nobody is told of an end before it is on disk. */
export class Endings {
  readonly #core: Core
  readonly #queue = new ExpiryQueue<Lease>()
  #timer: { readonly atMs: number; readonly timer: Timer } | undefined
  #underWay = 0
  /** Those that could not be written, until they are tried again. */
  #failed: Lease[] = []
  #retry: Timer | undefined

  constructor(core: Core) {
    this.#core = core
  }

  /** Sees to it that the lease ends when it runs out. */
  watch(lease: Lease): void {
    this.#queue.add(lease)
    this.arm()
  }

  /** Like {@link watch} for many: whoever calls it calls {@link arm} after the last. */
  add(lease: Lease): void {
    this.#queue.add(lease)
  }

  async end(lease: Lease, reason: 'expired' | 'resigned'): Promise<void> {
    const { group } = lease
    while (group.busy) await this.#core.settled(group)
    if (lease.ended || group.lease !== lease) return
    // Meanwhile it may have been renewed.
    if (reason === 'expired' && lease.isLive(this.#core.clock.monotonicMs())) return
    await this.#core.commit(group, { ...this.#core.stored(group), ended: true }, () => this.ended(lease, reason))
  }

  /** For a lease of which the disk knows that it is over. */
  ended(lease: Lease, reason: 'expired' | 'resigned' | 'deleted'): void {
    lease.ended = true
    if (reason !== 'expired') this.#queue.endedEarly()
    this.#core.tell('LEADER_LOST', lease, reason)
    wakeLine(lease.group)
  }

  /** How a group stands, in words that survive a crash: a term that has ended is told to be over once that is on disk. */
  async settle(group: Group): Promise<Verdict> {
    for (;;) {
      while (group.busy) await this.#core.settled(group)
      const { lease } = group
      if (!lease || lease.ended || lease.isLive(this.#core.clock.monotonicMs())) {
        return this.#core.verdict(group, false)
      }
      await this.end(lease, 'expired')
    }
  }

  close(): void {
    this.#timer?.timer.cancel()
    this.#retry?.cancel()
  }

  /** One timer for all leases. */
  arm(): void {
    const nextMs = this.#queue.nextMs()
    if (nextMs === undefined || this.#core.closed || this.#underWay >= mostAtOnce) return
    if (this.#timer && this.#timer.atMs <= nextMs) return
    this.#timer?.timer.cancel()
    const timer = this.#core.clock.setTimer(nextMs - this.#core.clock.monotonicMs(), () => this.#expire())
    this.#timer = { atMs: nextMs, timer }
  }

  #expire(): void {
    this.#timer = undefined
    const nowMs = this.#core.clock.monotonicMs()
    while (this.#underWay < mostAtOnce) {
      const lease = this.#queue.take(nowMs)
      if (!lease) break
      this.#underWay += 1
      void this.#tryEnd(lease)
    }
    this.arm()
  }

  async #tryEnd(lease: Lease): Promise<void> {
    try {
      await this.end(lease, 'expired')
      // Renewed while it waited for a write.
      if (!lease.ended) this.#queue.add(lease)
    } catch {
      this.#failed.push(lease)
      if (!this.#core.closed) this.#retry ??= this.#core.clock.setTimer(retryMs, () => this.#tryAgain())
    }
    this.#underWay -= 1
    this.arm()
  }

  #tryAgain(): void {
    this.#retry = undefined
    for (const lease of this.#failed.splice(0)) if (!lease.ended) this.#queue.add(lease)
    this.arm()
  }
}
