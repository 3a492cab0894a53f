import type { NatsKv, NatsManager } from 'tenure/stores/nats'

const unused = () => Promise.reject(new Error('nothing is connected'))

/** A bucket and a manager without a connection, for tests that make no call. */
export const unusedBucket: { readonly kv: NatsKv; readonly manager: NatsManager } = {
  kv: { create: unused, update: unused, put: unused, delete: unused, watch: unused, status: unused },
  manager: { streams: { info: unused }, direct: { getLastMessagesFor: unused } },
}
