import { pause } from '@tenure/internal/pause'
import type { Clock } from 'tenure'
import { nextTurn } from '../common/clock.ts'
import type { LoadedGroups, LoadOptions } from '../groups/load-groups.ts'
import type { FollowerReads, StorageHead } from '../storage/storage.ts'
import { BrokenCopy, GroupCopy } from './group-copy.ts'

/** The options of {@link WarmCopy}. */
export interface WarmCopyOptions {
  readonly reads: FollowerReads
  readonly groups: LoadOptions
  readonly clock: Clock
  /** How often a follower reads new batches. The rest is read when it takes over. */
  readonly pollMs: number
}

/** The longest pause before a broken copy is loaded again. During the pause, a takeover loads all groups. */
const maxPauseMs = 60_000

/**
 * Keeps a copy of all groups in a follower, so that it need not load them when it takes over. group-copy.ts explains
 * why the copy is safe to use. This class decides when to read: in the background, one read at a time, and never while
 * this replica is active.
 */
export class WarmCopy {
  readonly #options: WarmCopyOptions
  #copy: GroupCopy | undefined
  /** How many copies have broken since the last complete one. */
  #broken = 0
  #hasTried = false
  /** When this replica last began to be without a copy. */
  #coldSinceMs: number
  /** Aborted once the copy is complete. */
  #warm = new AbortController()
  #loop: { readonly over: Promise<void>; readonly stopping: AbortController } | undefined

  constructor(options: WarmCopyOptions) {
    this.#options = options
    this.#coldSinceMs = options.clock.monotonicMs()
  }

  /** Whether a takeover needs to read only the batches written since the last poll. */
  get isWarm(): boolean {
    return this.#copy?.isLoaded ?? false
  }

  /**
   * Whether a copy was complete, or cannot be made at the moment, since this replica started or was last active. A
   * rolling restart waits for this, so that the next active replica has a copy. A copy that breaks does not make this
   * false again: that may happen to all followers at once, and each of them can still forward calls.
   */
  get hasTried(): boolean {
    return this.#hasTried
  }

  /**
   * Resolves with whether the copy is complete. If it was begun less than `shortMs` ago, waits for the rest of that
   * time first, because a load of few groups has finished by then. An abort of the signal ends the wait.
   */
  async isWarmAfter(shortMs: number, signal: AbortSignal): Promise<boolean> {
    const { clock } = this.#options
    const restMs = this.#coldSinceMs + shortMs - clock.monotonicMs()
    if (!this.isWarm && restMs > 0) await pause(clock, restMs, AbortSignal.any([signal, this.#warm.signal]))
    return this.isWarm
  }

  /** Starts to follow the storage. Has no effect if it already does. */
  start(): void {
    if (this.#loop) return
    if (!this.#copy) {
      this.#drop()
      this.#hasTried = false
    }
    const stopping = new AbortController()
    this.#loop = { stopping, over: this.#follow(stopping.signal) }
  }

  /** Resolves once nothing is in flight. The copy is kept. */
  async stop(): Promise<void> {
    this.#loop?.stopping.abort()
    await this.#loop?.over
    this.#loop = undefined
  }

  /**
   * Stops, and resolves with everything that the storage has at this head. Nobody else should be able to append to it.
   * Resolves with `fenced` if another replica has appended to it anyway, and with undefined if there is no usable copy.
   * `assert` throws once the groups are no longer wanted.
   */
  async take(head: StorageHead, assert: () => void): Promise<LoadedGroups | 'fenced' | undefined> {
    await this.stop()
    assert()
    const copy = this.#copy
    if (!copy) return undefined
    try {
      do {
        await (copy.isLoaded ? copy.follow() : copy.loadPage())
        assert()
        if (copy.isBeyond(head)) return 'fenced'
        // Lets renewals of this replica's own lease run.
        await nextTurn()
      } while (!copy.isAt(head))
    } catch (error) {
      if (!(error instanceof BrokenCopy)) throw error
      this.#drop()
      return undefined
    }
    // From here on the copy belongs to the active term, which changes it. After that term this replica has to load again.
    this.#drop()
    return copy.groups
  }

  #drop(): void {
    this.#copy = undefined
    this.#coldSinceMs = this.#options.clock.monotonicMs()
    if (this.#warm.signal.aborted) this.#warm = new AbortController()
  }

  async #follow(signal: AbortSignal): Promise<void> {
    const { clock, pollMs } = this.#options
    // Set even when a read fails, because a failing storage must not be polled in a tight loop.
    let pauseMs = 0
    while (!signal.aborted) {
      if (pauseMs > 0) await pause(clock, pauseMs, signal)
      else await nextTurn()
      if (signal.aborted) return
      try {
        await this.#step()
        pauseMs = this.isWarm ? pollMs : 0
        if (!this.isWarm) continue
        this.#hasTried = true
        this.#warm.abort()
      } catch (error) {
        pauseMs = pollMs
        if (!(error instanceof BrokenCopy)) continue
        this.#drop()
        // For example, an older version that lists no batches has written to the storage.
        this.#hasTried = true
        pauseMs = Math.min(maxPauseMs, pollMs * 2 ** this.#broken)
        this.#broken += 1
      }
    }
  }

  async #step(): Promise<void> {
    const { reads, groups } = this.#options
    this.#copy ??= await GroupCopy.begin(reads, groups)
    if (!this.#copy.isLoaded) return this.#copy.loadPage()
    await this.#copy.follow()
    this.#broken = 0
  }
}
