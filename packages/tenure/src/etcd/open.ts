import type { Clock } from '../clock.ts'
import type { Environment } from '../http/environment.ts'
import type { CallOptions } from '../lease-store.ts'
import { EtcdClient } from './client.ts'
import type { Transaction, TransactionAnswer } from './messages.ts'
import { addressesOf, checkCredentials, prefixOf } from './options.ts'
import { etcdAddressOf } from './url.ts'

/** The keys of a cluster. */
export interface EtcdKeys {
  /** Below which one's own keys are, without slashes around it. */
  readonly prefix: string
  /** Of the cluster that has answered; undefined before the first answer. */
  readonly clusterId: string | undefined
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
  const client = new EtcdClient(addressesOf(endpoints, credentials), credentials, clock)
  return {
    prefix: prefixOf(prefix),
    get clusterId() {
      return client.clusterId
    },
    transact: (transaction, call) => client.transact(transaction, call),
    close: () => client.close(),
  }
}
