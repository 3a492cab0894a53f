import { secret as newSecret } from '@tenure/internal/clock'
import type { Clock } from 'tenure'
import { checkOptions } from 'tenure/internal'
import { systemClock } from '../common/clock.ts'
import { openServer, type StorageEnvironment } from './open-storage.ts'
import { ServerStorage } from './server-storage.ts'

/** The options of {@link rotateSecret}. */
export interface RotateOptions {
  /** The URL of the storage that replicas share. */
  readonly store: string
  /** The source of credentials. Default: `process.env`. */
  readonly environment?: StorageEnvironment | undefined
  readonly clock?: Clock | undefined
}

/**
 * How long to retry. A busy active replica does not always leave enough time between two batches to read and write the
 * head.
 */
const retryTimeoutMs = 20_000

/**
 * Takes one step in replacing the secret with which replicas authenticate each other and seal cursors. After each step,
 * restart all replicas, one after another. After three steps, no old secret is accepted. Each step fences the active
 * replica at its next write, which costs one handover and no lease.
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
    const untilMs = clock.monotonicMs() + retryTimeoutMs
    while (clock.monotonicMs() < untilMs) {
      const head = await storage.head()
      const next = { ...head, seq: head.seq + 1, batch: newId(), secret: nextSecret(head.secret) }
      const append = () => storage.append(head, { head: next, groups: [] })
      // If the first attempt got no answer, the second one finds out its outcome.
      if ((await append().catch(append)) === 'done') return
    }
    throw new Error(
      'The active replica is writing continuously, so the secret was not changed. Try again when it is less busy.',
    )
  } finally {
    await storage.close()
  }
}

/**
 * Returns the current, the next, and the previous secret, all of which are accepted. Every replica that was started
 * since the previous step knows the next secret. So replicas that have not been restarted yet understand a replica that
 * already uses it.
 */
export function nextSecret(secret: string): string {
  const [used, next] = secret.split(' ')
  const fresh = newSecret(16).toString('hex')
  return next === undefined ? `${used} ${fresh}` : `${next} ${fresh} ${used}`
}
