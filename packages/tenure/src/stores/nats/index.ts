/**
 * Keeps elections in a key-value bucket of NATS JetStream. Each election has two keys, the record and the highest term.
 *
 * @module
 */
import { checkOptions, type OptionNames } from '../../common/check-options.ts'
import { systemClock, type Clock } from '../../common/clock.ts'
import { checkClock } from '../../engine/check-values.ts'
import type { InspectableStore } from '../../store-kit/diagnostics.ts'
import { checkKv, managerOf, type NatsKv, type NatsManager } from './client.ts'
import { storeOn } from './store-on.ts'

export type { InspectableStore } from '../../store-kit/diagnostics.ts'
export type { NatsEntries, NatsEntry, NatsKv, NatsManager, NatsMessage } from './client.ts'
export type { BucketSettings } from './settings.ts'

/** Options of {@link natsStore}. */
export interface NatsStoreOptions {
  /** A bucket of `@nats-io/kv` 3. The caller owns it and its connection: the store never closes them. */
  readonly kv: NatsKv
  /** The manager of the bucket's connection, from `@nats-io/jetstream`. Default: the one that the bucket uses itself. */
  readonly manager?: NatsManager | undefined
  /**
   * The monitoring ports of the servers, such as `http://10.0.0.1:8222`. `inspect`, and so `tenure doctor`, asks them when
   * the servers write to their disks. Default: none.
   */
  readonly monitor?: readonly string[] | undefined
  readonly clock?: Clock | undefined
}

const names: OptionNames<NatsStoreOptions> = { kv: true, manager: true, monitor: true, clock: true }

/**
 * Keeps elections in a bucket of NATS 2.11 or newer, on file storage. The candidates observe expiry.
 *
 * @example
 * const connection = await connect({ servers: 'localhost:4222', pingInterval: 2_000, maxReconnectAttempts: -1 })
 * const store = natsStore({ kv: await new Kvm(connection).open('leases') })
 * await lead({ store, election: 'nightly-report' }, work)
 */
export function natsStore(options: NatsStoreOptions): InspectableStore {
  checkOptions('natsStore()', options, names)
  const { kv, clock = systemClock } = options
  checkKv(kv)
  checkClock(clock)
  const access = { kv, manager: managerOf(kv, options.manager) }
  return storeOn(async () => access, { place: 'the bucket', monitor: options.monitor, clock })
}
