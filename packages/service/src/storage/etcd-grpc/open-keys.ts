import type { Clock } from 'tenure'
import { openEtcdKeys, type EtcdKeys } from 'tenure/internal/etcd'
import type { StorageEnvironment } from '../open-storage.ts'
import { GrpcTransactions } from './grpc-transactions.ts'

/** Opens the keys that an `etcd:` or `etcds:` URL names. Undefined if the URL is invalid. */
export function openGrpcKeys(url: string, environment: StorageEnvironment, clock: Clock): EtcdKeys | undefined {
  return openEtcdKeys(url, environment, clock, new GrpcTransactions(clock))
}
