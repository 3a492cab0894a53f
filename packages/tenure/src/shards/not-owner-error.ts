import { TenureError } from '../common/errors.ts'
import type { ShardOwner } from './routing.ts'

/**
 * The error of a process that does not own a shard: `hold()` rejects with it, and it is the reason of the signal when a
 * shard moves away. `owner` is who owns the shard, as far as this process knows.
 *
 * @example
 * if (error instanceof NotOwnerError && error.owner) redirect(error.owner.metadata.address)
 */
export class NotOwnerError extends TenureError {
  override readonly name = 'NotOwnerError'
  readonly shard: number
  readonly owner: ShardOwner | undefined

  constructor(message: string, shard: number, owner?: ShardOwner, cause?: unknown) {
    super('NOT_OWNER', message, { retryable: true, cause })
    this.shard = shard
    this.owner = owner
  }
}
