/**
 * Keys and leases on etcd, for the election service's own data. Internal to Tenure's own packages: it may change in any
 * release, so they depend on this exact version.
 *
 * @module
 */
export { etcdErrorOf, understood } from '../clients/etcd/etcd-error.ts'
export type {
  Comparison,
  KeyRange,
  KeyValue,
  Operation,
  Transaction,
  TransactionAnswer,
  TransactionResponse,
} from '../clients/etcd/messages.ts'
export { openEtcdKeys, type EtcdKeys } from '../clients/etcd/open.ts'
export type { SendTransaction, TransactionTransport } from '../clients/etcd/transactions.ts'
export { AnswerTooLong, isAnswerTooLong, longestBytes, MalformedResponse } from '../clients/http/body.ts'
export type { Credentials } from '../clients/http/credentials.ts'
export type { Endpoint } from '../clients/http/endpoints.ts'
export type { HttpCall, Peer } from '../clients/http/http-client.ts'
export { leasesOn } from '../stores/etcd/lease-records.ts'
