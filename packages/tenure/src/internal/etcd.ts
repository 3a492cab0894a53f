/**
 * Keys and leases on etcd, for the election service's own data. Internal to Tenure's own packages: it may change in any
 * release, so they depend on this exact version.
 *
 * @module
 */
export type { KeyValue, Operation, Transaction, TransactionAnswer } from '../clients/etcd/messages.ts'
export { openEtcdKeys, type EtcdKeys } from '../clients/etcd/open.ts'
export { isAnswerTooLong } from '../clients/http/body.ts'
export { leasesOn } from '../stores/etcd/lease-records.ts'
