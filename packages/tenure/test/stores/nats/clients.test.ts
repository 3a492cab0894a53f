import type { JetStreamManager } from '@nats-io/jetstream'
import type { Bucket, KV } from '@nats-io/kv'
import { describe, expect, expectTypeOf, test } from 'vitest'
import { unusedBucket } from '../../../../../test/unused-bucket.ts'
import type { InspectableStore } from '../../../src/store-kit/diagnostics.ts'
import { natsStore, type NatsKv, type NatsManager } from '../../../src/stores/nats/index.ts'

// The type checker verifies this test.
test('natsStore accepts the buckets and managers of the client', () => {
  expectTypeOf<KV>().toExtend<NatsKv>()
  expectTypeOf<Bucket>().toExtend<NatsKv>()
  expectTypeOf<JetStreamManager>().toExtend<NatsManager>()
  expectTypeOf(natsStore(unusedBucket)).toEqualTypeOf<InspectableStore>()
})

describe('natsStore', () => {
  test('natsStore accepts a bucket without calling it', () => {
    expect(natsStore(unusedBucket)).toMatchObject({ expiry: 'observed', terms: true, keepsTerms: true })
  })

  test.each<[string, object]>([
    ['kv', {}],
    ['kv', { kv: 'leases' }],
    ['kv', { kv: { get: () => {} } }],
    ['manager', { kv: unusedBucket.kv }],
    ['manager', { kv: unusedBucket.kv, manager: {} }],
    ['monitor', { ...unusedBucket, monitor: 'http://127.0.0.1:8222' }],
    ['monitor', { ...unusedBucket, monitor: ['127.0.0.1:8222'] }],
    ['clock', { ...unusedBucket, clock: {} }],
  ])('natsStore refuses an invalid "%s"', (option, options) => {
    expect(() => natsStore(options as never)).toThrow(new RegExp(`"${option}"`))
    expect(() => natsStore(options as never)).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }))
  })
})
