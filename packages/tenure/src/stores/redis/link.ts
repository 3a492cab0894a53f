import { messageOf } from '@tenure/internal/message'
import type { CallBound } from '../../common/call-bound.ts'
import type { Script } from './scripts.ts'

/** Sends a command to one Redis server and returns its answer. */
export type RedisCommand = (...words: string[]) => Promise<unknown>

/** A client that belongs to the store, from either package. */
export interface RedisConnection {
  /** The prefix that the client itself adds to each key. */
  readonly keyPrefix: string
  readonly isCluster: boolean
  /** Called once, before anything else. Rejects with the reason, without retrying. */
  connect(): Promise<void>
  /** Sends nothing more after `bound` has ended. */
  evaluate(script: Script, keys: string[], args: string[], bound?: CallBound): Promise<unknown>
  /** All primaries: a single one, or those of a cluster, always in the same order. */
  nodes(): Promise<readonly RedisCommand[]>
  subscribe(channel: string, onMessage: (message: string, channel: string) => void): Promise<void>
  unsubscribe(channel: string): Promise<unknown>
  /** Called when the connection is lost. */
  onLost(listener: (cause: unknown) => void): void
  /**
   * Whether the connection keeps the process running. It must do so while a call is pending. A cluster's connections
   * always do.
   */
  hold(isBusy: boolean): void
  /** Closes the connection immediately, together with everything queued on it, even while it is connecting. */
  destroy(): void
}

/** Runs a script by its hash, or by its text if Redis does not have it yet. */
export async function evaluated(
  byName: () => Promise<unknown>,
  byText: () => Promise<unknown>,
  bound: CallBound | undefined,
): Promise<unknown> {
  try {
    return await byName()
  } catch (error) {
    if (replyCodeOf(error) !== 'NOSCRIPT' || bound?.ended) throw error
    return byText()
  }
}

/** How Redis before version 7 wraps errors of commands in a script. */
const inScript = /^ERR Error running script \(call to \w+\): (?:@user_script: ?\d+: )+-?/

/** The first word of a Redis error. Empty if the error does not come from Redis. */
export function replyCodeOf(error: unknown): string {
  const said = messageOf(error).replace(inScript, '')
  if (/^(ERR )?The user executing the script can't/.test(said)) return 'NOPERM'
  return /^([A-Z]{3,}) /.exec(said)?.[1] ?? ''
}

/** A connection that may still be connecting. */
export class PendingConnection {
  /** Resolves with the connection once it is open. */
  readonly ready: Promise<RedisConnection>
  /** The connection, without waiting for it. Undefined until it is open. */
  link: RedisConnection | undefined
  readonly #made: Promise<RedisConnection>

  constructor(made: Promise<RedisConnection>) {
    this.#made = made
    this.ready = made.then(async (link) => {
      await link.connect()
      this.link = link
      return link
    })
    // The call that waits for the connection gets the error.
    this.ready.catch(() => {})
  }

  /** Called once, when connecting failed or the connection was lost. */
  onLost(listener: (cause: unknown) => void): void {
    this.ready.then((link) => link.onLost(listener), listener)
  }

  destroy(): void {
    this.#made.then(
      (link) => link.destroy(),
      () => {},
    )
  }
}
