import { secret as newSecret } from '@tenure/internal/clock'
import type { Clock } from 'tenure'
import { checkOptions } from 'tenure/options'
import { systemClock } from '../clock.ts'
import { openServer, type Environment } from './open-storage.ts'
import { ServerStorage } from './server-storage.ts'

/** What {@link rotateSecret} takes. */
export interface RotateOptions {
  /** The URL of the storage that replicas share. */
  readonly store: string
  /** Where credentials are looked for. Default: `process.env`. */
  readonly environment?: Environment | undefined
  readonly clock?: Clock | undefined
}

/** Between two batches of a busy active replica there is not always time to read the head and to write it. */
const patienceMs = 20_000

/**
 * Takes one step in replacing the secret by which replicas know each other, and which seals cursors. Restart every replica
 * after it, one after another. After three steps nothing of the secrets of before is accepted any more. Each step fences
 * the active replica at its next write, which costs one hand-over and no lease.
 *
 * @example
 * await rotateSecret({ store: 'etcd://10.0.0.1:2379/tenure' })
 */
export async function rotateSecret(options: RotateOptions): Promise<void> {
  checkOptions('rotateSecret()', options, { store: true, environment: true, clock: true })
  const { store, clock = systemClock, environment = process.env } = options
  const { server } = await openServer(store, environment, clock)
  const newId = () => clock.randomId()
  const storage = await ServerStorage.open({ server, newId, mustExist: true })
  try {
    const untilMs = clock.monotonicMs() + patienceMs
    while (clock.monotonicMs() < untilMs) {
      const head = await storage.head()
      const next = { ...head, seq: head.seq + 1, batch: newId(), secret: nextSecret(head.secret) }
      const append = () => storage.append(head, { head: next, groups: [] })
      // What became of a first try without an answer the second finds out.
      if ((await append().catch(append)) === 'done') return
    }
    throw new Error('The active replica writes without a pause. Run this again when it has less to do.')
  } finally {
    await storage.close()
  }
}

/**
 * The one that is used, the next one, and the last one; all three are accepted. The next one is known to every replica that
 * was started since the step before, so whoever uses it already is understood by those that are not restarted yet.
 */
export function nextSecret(secret: string): string {
  const [used, next] = secret.split(' ')
  const fresh = newSecret(16).toString('hex')
  return next === undefined ? `${used} ${fresh}` : `${next} ${fresh} ${used}`
}
