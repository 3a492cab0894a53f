/**
 * Keeps elections in etcd. Each election has two keys, the record and the highest term.
 *
 * @module
 */
import { EtcdClient, type EtcdCredentials } from '../../clients/etcd/client.ts'
import { defaultPrefix } from '../../clients/etcd/open.ts'
import { addressesOf, checkCredentials } from '../../clients/etcd/options.ts'
import { prefixOf } from '../../clients/http/addresses.ts'
import type { Provided } from '../../clients/http/provided.ts'
import { checkOptions, type OptionNames } from '../../common/check-options.ts'
import { systemClock, type Clock } from '../../common/clock.ts'
import { checkClock } from '../../engine/check-values.ts'
import type { InspectableStore } from '../../store-kit/diagnostics.ts'
import { leasesOn } from './lease-records.ts'

export type { Provided } from '../../clients/http/provided.ts'
export type { InspectableStore } from '../../store-kit/diagnostics.ts'

/** Options of {@link etcdStore}. */
export interface EtcdStoreOptions extends EtcdCredentials {
  /** URLs of the members of one cluster, such as `http://10.0.0.1:2379`. List all members. */
  readonly endpoints: string | readonly string[]
  /** Prefix of all keys. Default: `tenure`. */
  readonly prefix?: string | undefined
  /** User name, if etcd has authentication enabled. Requires `password`. */
  readonly user?: string | undefined
  /** A function is called again whenever a new token is needed. */
  readonly password?: Provided | undefined
  /** CA certificates to trust, as PEM text. Default: those that Node trusts. */
  readonly ca?: Provided | undefined
  /** A client certificate for the connection, as PEM text. Requires `key`. It does not identify an etcd user. */
  readonly cert?: Provided | undefined
  readonly key?: Provided | undefined
  readonly clock?: Clock | undefined
}

const names: OptionNames<EtcdStoreOptions> = {
  endpoints: true,
  prefix: true,
  user: true,
  password: true,
  ca: true,
  cert: true,
  key: true,
  clock: true,
}

/**
 * Keeps each election in two keys of etcd 3.4 or newer, using its JSON gateway. The candidates observe expiry. The
 * store does not use etcd leases, because a member that has lost its cluster may still confirm them.
 *
 * @example
 * const store = etcdStore({ endpoints: ['http://10.0.0.1:2379', 'http://10.0.0.2:2379', 'http://10.0.0.3:2379'] })
 * await lead({ store, election: 'nightly-report' }, work)
 */
export function etcdStore(options: EtcdStoreOptions): InspectableStore {
  checkOptions('etcdStore()', options, names)
  const { endpoints, prefix = defaultPrefix, user, password, ca, cert, key, clock = systemClock } = options
  checkClock(clock)
  const credentials = { user, password, ca, cert, key }
  checkCredentials(credentials)
  const addresses = addressesOf(endpoints, credentials)
  const client = new EtcdClient(addresses, credentials, clock)
  return leasesOn({ client, addresses, credentials }, prefixOf(prefix), clock)
}
