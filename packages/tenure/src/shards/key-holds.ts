import type { MemberDriver } from './member-driver.ts'
import { NotOwnerError } from './not-owner-error.ts'
import type { ShardOwner } from './routing.ts'
import { isAbort } from './shard-work.ts'

/** What the function of `hold()` gets. */
export interface HoldContext {
  readonly shard: number
  /** The name of the shard. Undefined if shards have only numbers. */
  readonly name: string | undefined
  /** The shard's fencing token. */
  readonly token: number
  /** Aborts when the shard moves away. */
  readonly signal: AbortSignal
}

/**
 * Runs a function while this process owns a shard. The shard is handed over only after the function has settled. Rejects
 * with {@link NotOwnerError} if the shard belongs elsewhere, or if the function ended because it moved away.
 */
export async function holdShard<T>(
  member: MemberDriver,
  shard: number,
  action: (context: HoldContext) => T | Promise<T>,
  { group, ownerOf }: { readonly group: string; ownerOf(): ShardOwner | undefined },
): Promise<T> {
  for (;;) {
    if (member.tokenOf(shard) === undefined) {
      const owner = ownerOf()
      const whose = owner && !owner.isMe ? `"${owner.identity}" owns it` : 'nobody is known to own it'
      throw new NotOwnerError(`This process does not own shard ${shard} of "${group}": ${whose}.`, shard, owner)
    }
    const run = member.runOf(shard)
    if (run) {
      const { name, token, signal } = run
      try {
        return await run.run(async () => action({ shard, name, token, signal }))
      } catch (error) {
        if (signal.aborted && isAbort(error, signal.reason)) throw withOwner(signal.reason, ownerOf())
        throw error
      }
    }
    // Rule 3 of members: nothing starts on a shard before earlier work on it has settled.
    await member.nextChange()
  }
}

function withOwner(reason: unknown, owner: ShardOwner | undefined): unknown {
  if (!(reason instanceof NotOwnerError) || !owner || owner.isMe) return reason
  return new NotOwnerError(reason.message, reason.shard, owner, reason)
}
