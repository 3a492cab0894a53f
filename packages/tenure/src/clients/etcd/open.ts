import type { Clock } from '../../common/clock.ts'
import { prefixOf } from '../http/addresses.ts'
import type { Environment } from '../http/environment.ts'
import type { CallTimeouts } from '../http/http-client.ts'
import { EtcdClient, type EtcdCredentials } from './client.ts'
import type { Transaction, TransactionAnswer } from './messages.ts'
import { addressesOf, checkCredentials } from './options.ts'
import type { TransactionTransport } from './transactions.ts'
import { etcdAddressOf } from './url.ts'

/** Access to the keys of a cluster. */
export interface EtcdKeys {
  /** Prefix of the caller's own keys, without slashes around it. */
  readonly prefix: string
  /** Id of the cluster that answered. Undefined before the first answer. */
  readonly clusterId: string | undefined
  /**
   * How many times an earlier history has replaced the cluster's history since the first answer, for example after a
   * restored backup. The call that detects it rejects. The earlier history answers later calls.
   */
  readonly replacements: number
  /** The client that sends these calls. A lease store that shares it also shares its knowledge of the history. */
  readonly client: Pick<EtcdClient, 'transact' | 'watch' | 'close'>
  readonly addresses: readonly URL[]
  readonly credentials: EtcdCredentials
  /** Runs a transaction in one round trip. Rejects if it is unknown whether the transaction was or will be applied. */
  transact(transaction: Transaction, call: CallTimeouts): Promise<TransactionAnswer>
  /** Closes idle connections. */
  close(): void
}

/** The default prefix of keys. */
export const defaultPrefix = 'tenure'

/**
 * Opens the cluster that an `etcd:` or `etcds:` URL names, with credentials from the environment. Undefined if the URL
 * is invalid. `transactions` sends the transactions.
 *
 * @example
 * const keys = openEtcdKeys('etcd://10.0.0.1:2379/tenure', process.env, clock, new GrpcTransactions(clock))
 */
export function openEtcdKeys(
  url: string,
  environment: Environment,
  clock: Clock,
  transactions: TransactionTransport,
): EtcdKeys | undefined {
  const address = etcdAddressOf(url, environment)
  if (!address) return undefined
  const { endpoints, prefix = defaultPrefix, ...credentials } = address
  checkCredentials(credentials)
  const addresses = addressesOf(endpoints, credentials)
  const client = new EtcdClient(addresses, credentials, clock, { replaced: 'use', transactions })
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
