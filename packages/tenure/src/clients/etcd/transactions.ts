import { objectOf } from '../http/body.ts'
import type { Endpoint } from '../http/endpoints.ts'
import type { CallTimeouts } from '../http/http-client.ts'
import { errorOf, understood } from './etcd-error.ts'
import {
  clusterOf,
  decodeTransaction,
  encodeTransaction,
  type Transaction,
  type TransactionResponse,
} from './messages.ts'

/** Sends an encoded transaction to a member. Rejects if the outcome is unknown. */
export type SendTransaction = (
  endpoint: Endpoint,
  call: CallTimeouts & { readonly timeoutMs: number; readonly headers: Readonly<Record<string, string>> },
) => Promise<TransactionResponse>

/** How transactions reach etcd. */
export interface TransactionTransport {
  /** Encodes a transaction once, however many members it is then sent to. */
  encode(transaction: Transaction): SendTransaction
  /** Closes idle connections. */
  close(): void
}

/** Sends transactions through etcd's JSON gateway, on the connections of the other calls. */
export class GatewayTransactions implements TransactionTransport {
  encode(transaction: Transaction): SendTransaction {
    const body = encodeTransaction(transaction)
    return async ({ name, http }, call) => {
      const { status, text } = await http.request({ method: 'POST', path: '/v3/kv/txn', body, ...call })
      if (status !== 200) throw errorOf(name, status, text)
      return understood(name, objectOf(text), (answer) => ({
        clusterId: clusterOf(answer),
        ...decodeTransaction(transaction, answer),
      }))
    }
  }

  close(): void {}
}
