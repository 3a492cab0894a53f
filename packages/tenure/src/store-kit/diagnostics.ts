import type { CallOptions, LeaseStore } from '../engine/lease-store.ts'

/** A problem with a server's settings: what is wrong, and what to do about it. */
export interface Finding {
  /**
   * `unsafe`: two candidates could lead at once, or a term could be granted twice. `tight`: the setting works, but
   * makes failures more likely.
   */
  readonly risk: 'unsafe' | 'tight'
  readonly text: string
}

/** A store whose server has settings that affect safety. `tenure doctor` calls `inspect`. */
export interface InspectableStore extends LeaseStore {
  /** Problems with the server's settings, worst first. Empty if there are none. */
  inspect(options: CallOptions): Promise<readonly Finding[]>
  /** Closes the connections that the store opened itself. */
  close(): Promise<void>
}
