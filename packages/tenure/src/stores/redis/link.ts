import { messageOf } from '@tenure/internal/message'
import type { Bound } from '../../http/bound.ts'
import type { Script } from './script.ts'

/** What one server of Redis answers to a command. */
export type Command = (...words: string[]) => Promise<unknown>

/** A client of the store's own, of either package. */
export interface Link {
  /** What the client itself puts before each key. */
  readonly keyPrefix: string
  readonly isCluster: boolean
  /** Called once, before anything else. Rejects with the reason, without trying again. */
  connect(): Promise<void>
  /** After `bound` has ended, nothing more is sent. */
  evaluate(script: Script, keys: string[], args: string[], bound?: Bound): Promise<unknown>
  /** Every primary: one, or those of a cluster, always in the same order. */
  nodes(): Promise<readonly Command[]>
  subscribe(channel: string, onMessage: (message: string, channel: string) => void): Promise<void>
  unsubscribe(channel: string): Promise<unknown>
  /** Called when the connection is lost. */
  onLost(listener: (cause: unknown) => void): void
  /** Whether it keeps the process running, as it must while somebody waits for it. A cluster's does so all the time. */
  hold(isBusy: boolean): void
  /** Closes it at once, with all that waits in it, even while it is being connected. */
  destroy(): void
}

/** Runs a script by its name, and by its text where Redis does not know it yet. */
export async function evaluated(
  byName: () => Promise<unknown>,
  byText: () => Promise<unknown>,
  bound: Bound | undefined,
): Promise<unknown> {
  try {
    return await byName()
  } catch (error) {
    if (replyCodeOf(error) !== 'NOSCRIPT' || bound?.ended) throw error
    return byText()
  }
}

/** How Redis before version 7 wraps what it says to a command of a script. */
const inScript = /^ERR Error running script \(call to \w+\): (?:@user_script: ?\d+: )+-?/

/** The word with which Redis begins an error; empty if the error is not Redis' own. */
export function replyCodeOf(error: unknown): string {
  const said = messageOf(error).replace(inScript, '')
  if (/^(ERR )?The user executing the script can't/.test(said)) return 'NOPERM'
  return /^([A-Z]{3,}) /.exec(said)?.[1] ?? ''
}

/** A link, from the moment that it is wanted. */
export class Connection {
  /** The link, once it is connected. */
  readonly ready: Promise<Link>
  /** The same, without waiting. */
  link: Link | undefined
  readonly #made: Promise<Link>

  constructor(made: Promise<Link>) {
    this.#made = made
    this.ready = made.then(async (link) => {
      await link.connect()
      this.link = link
      return link
    })
    // The call that waits for it gets the error.
    this.ready.catch(() => {})
  }

  /** Called once, when it could not be made or was lost. */
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
