import type { Clock } from 'tenure'
import {
  etcdErrorOf,
  understood,
  type Endpoint,
  type SendTransaction,
  type Transaction,
  type TransactionTransport,
} from 'tenure/internal/etcd'
import { GrpcClient } from './grpc-client.ts'
import { decodeTxnResponse, encodeTxnRequest } from './grpc-messages.ts'

/**
 * Sends transactions through etcd's gRPC API. For a transaction with many keys, etcd needs about half of the processor
 * time that its JSON gateway takes, or less.
 */
export class GrpcTransactions implements TransactionTransport {
  readonly #clock: Clock
  readonly #clients = new Map<Endpoint, GrpcClient>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  encode(transaction: Transaction): SendTransaction {
    const message = encodeTxnRequest(transaction)
    return async (endpoint, call) => {
      const { name } = endpoint
      const {
        code,
        text,
        message: response,
      } = await this.#clientOf(endpoint).call({
        path: '/etcdserverpb.KV/Txn',
        message,
        ...call,
      })
      if (code !== 0) throw etcdErrorOf(name, { code, message: text })
      return understood(name, response, (bytes) => decodeTxnResponse(transaction, bytes))
    }
  }

  close(): void {
    for (const client of this.#clients.values()) client.close()
  }

  #clientOf(endpoint: Endpoint): GrpcClient {
    let client = this.#clients.get(endpoint)
    if (!client) this.#clients.set(endpoint, (client = new GrpcClient(endpoint.peer, this.#clock)))
    return client
  }
}
