import type { Clock } from '../clock.ts'
import type { Environment } from '../http/environment.ts'
import type { CallOptions } from '../lease-store.ts'
import { EtcdClient, type EtcdCredentials } from './client.ts'
import type { Transaction, TransactionAnswer } from './messages.ts'
import { addressesOf, checkCredentials, prefixOf } from './options.ts'
import { etcdAddressOf } from './url.ts'

/** The keys of a cluster. */
export interface EtcdKeys {
  /** Below which one's own keys are, without slashes around it. */
  readonly prefix: string
  /** Of the cluster that has answered; undefined before the first answer. */
  readonly clusterId: string | undefined
  /**
   * How often the history of the cluster was replaced by an earlier one since the first answer, as after a restored
   * backup. The call that finds it out rejects, and later ones are answered by that history.
   */
  readonly replacements: number
  /** What sends these. Leases on it share what is known of the history. */
  readonly client: Pick<EtcdClient, 'transact' | 'watch' | 'close'>
  readonly addresses: readonly URL[]
  readonly credentials: EtcdCredentials
  /** In one round trip. Rejects where nobody knows whether it was carried out, or will be. */
  transact(transaction: Transaction, call: CallOptions): Promise<TransactionAnswer>
  /** Ends the connections that nobody uses now. */
  close(): void
}

/** Below which keys are where nobody says otherwise. */
export const defaultPrefix = 'tenure'

/**
 * The keys of the cluster that an `etcd:` or `etcds:` URL names, with the credentials of the environment; undefined if it
 * names none.
 *
 * @example
 * const keys = openEtcdKeys('etcd://10.0.0.1:2379/tenure', process.env, clock)
 */
export function openEtcdKeys(url: string, environment: Environment, clock: Clock): EtcdKeys | undefined {
  const address = etcdAddressOf(url, environment)
  if (!address) return undefined
  const { endpoints, prefix = defaultPrefix, ...credentials } = address
  checkCredentials(credentials)
  const addresses = addressesOf(endpoints, credentials)
  const client = new EtcdClient(addresses, credentials, clock, 'use')
  return {
    prefix: prefixOf(prefix),
    client,
    addresses,
    credentials,
    get replacements() {
      return client.replacements
    },
    get clusterId() {
      return client.clusterId
    },
    transact: (transaction, call) => client.transact(transaction, call),
    close: () => client.close(),
  }
}
