/**
 * Keeps elections in the key-value store of Consul. Each election has three keys: the record, the highest term, and a
 * mark of this history.
 *
 * @module
 */
import { addressesIn, prefixOf } from '../../clients/http/addresses.ts'
import { checkTokenCredentials } from '../../clients/http/bearer-token.ts'
import type { Provided } from '../../clients/http/provided.ts'
import { checkOptions, type OptionNames } from '../../common/check-options.ts'
import { systemClock, type Clock } from '../../common/clock.ts'
import { invalidOption } from '../../common/errors.ts'
import { checkClock } from '../../engine/check-values.ts'
import { swapStore } from '../../store-kit/compare-and-swap-store.ts'
import type { InspectableStore } from '../../store-kit/diagnostics.ts'
import { ConsulClient } from './client.ts'
import { checkAgents, diagnoseAgents } from './diagnostics.ts'
import { ConsulServer } from './lease-keys.ts'

export type { Provided } from '../../clients/http/provided.ts'
export type { InspectableStore } from '../../store-kit/diagnostics.ts'

/** Options of {@link consulStore}. */
export interface ConsulStoreOptions {
  /** URLs of agents of one cluster, such as `http://127.0.0.1:8500`. Usually the agent on this machine is enough. */
  readonly endpoints: string | readonly string[]
  /** Prefix of all keys. Default: `tenure`. */
  readonly prefix?: string | undefined
  /** An ACL token. A function is called before each request. */
  readonly token?: Provided | undefined
  /** CA certificates to trust, as PEM text. Default: those that Node trusts. */
  readonly ca?: Provided | undefined
  /** A client certificate for the connection, as PEM text. Requires `key`. */
  readonly cert?: Provided | undefined
  readonly key?: Provided | undefined
  readonly clock?: Clock | undefined
}

const names: OptionNames<ConsulStoreOptions> = {
  endpoints: true,
  prefix: true,
  token: true,
  ca: true,
  cert: true,
  key: true,
  clock: true,
}

/**
 * Keeps each election in keys of Consul 1.13 or newer. The candidates observe expiry. The store does not use Consul's
 * sessions, because their time to live is at least 10 s, and a session that has ended may hold its lock for twice as
 * long.
 *
 * @example
 * const store = consulStore({ endpoints: 'http://127.0.0.1:8500' })
 * await lead({ store, election: 'nightly-report' }, work)
 */
export function consulStore(options: ConsulStoreOptions): InspectableStore {
  checkOptions('consulStore()', options, names)
  const { endpoints, prefix = 'tenure', token, ca, cert, key, clock = systemClock } = options
  checkClock(clock)
  const credentials = { token, ca, cert, key }
  checkTokenCredentials(credentials)
  const kind = { server: 'a Consul agent', usualPort: 8500, credentials: '"token"' }
  const addresses = addressesIn(endpoints, credentials, kind)
  const folder = prefixOf(prefix)
  if (folder.split('/').some((part) => /^\.{0,2}$/.test(part))) {
    throw invalidOption('prefix', prefix, 'no part between its slashes may be empty, "." or ".."')
  }
  const client = new ConsulClient(addresses, credentials, clock)
  const place = { addresses, credentials, clock }
  return {
    ...swapStore(new ConsulServer(client, folder, clock), clock),
    examine: (_election, call) => checkAgents(place, call),
    inspect: (call) => diagnoseAgents(place, call),
  }
}
