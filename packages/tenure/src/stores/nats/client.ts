import { invalidOption } from '../../common/errors.ts'
import type { BucketSettings } from './settings.ts'

/** An entry of a watch on a bucket. */
export interface NatsEntry {
  readonly key: string
  readonly value: Uint8Array
  readonly revision: number
  readonly operation: string
}

/** The part of a bucket (`KV` of `@nats-io/kv` 3) that the store uses. */
export interface NatsKv {
  create(key: string, data: string): Promise<number>
  update(key: string, data: string, version: number): Promise<number>
  put(key: string, data: string): Promise<number>
  delete(key: string, options: { previousSeq: number }): Promise<void>
  watch(options: { key: string; resumeFromRevision: number }): Promise<NatsEntries>
  status(): Promise<{ readonly bucket: string; readonly streamInfo: { readonly config: BucketSettings } }>
}

/** The entries of a watch, until it is stopped. */
export interface NatsEntries extends AsyncIterable<NatsEntry> {
  stop(): void
}

/** A message of the stream behind a bucket. */
export interface NatsMessage {
  readonly subject: string
  readonly seq: number
  readonly data: Uint8Array
  readonly header: { get(name: string): string }
}

/** The part of a `JetStreamManager` of `@nats-io/jetstream` 3 that the store uses. */
export interface NatsManager {
  readonly streams: {
    info(
      stream: string,
      options: { subjects_filter: string },
    ): Promise<{ readonly state: { readonly subjects?: Record<string, number> } }>
  }
  readonly direct: {
    getLastMessagesFor(
      stream: string,
      options: {
        multi_last: string[]
        batch: number
        callback: (done: { readonly err?: Error } | null, message: NatsMessage) => void
      },
    ): Promise<unknown>
  }
}

/** Throws if the value is not a bucket. */
export function checkKv(kv: unknown): asserts kv is NatsKv {
  if (hasMethods(kv, ['create', 'update', 'put', 'delete', 'watch', 'status'])) return
  throw invalidOption('kv', kv, 'it must be a bucket of "@nats-io/kv": await new Kvm(connection).open(name)')
}

/** Returns the manager of the bucket's connection. `given` takes precedence. Throws if there is none. */
export function managerOf(kv: NatsKv, given: unknown): NatsManager {
  // Every bucket of "@nats-io/kv" 3 has one, although its type does not say so.
  const manager: unknown = given ?? Reflect.get(kv, 'jsm')
  if (isManager(manager)) return manager
  throw invalidOption(
    'manager',
    manager,
    'it must be a manager of "@nats-io/jetstream": await jetstreamManager(connection)',
  )
}

function isManager(value: unknown): value is NatsManager {
  if (typeof value !== 'object' || value === null) return false
  return (
    hasMethods(Reflect.get(value, 'streams'), ['info']) &&
    hasMethods(Reflect.get(value, 'direct'), ['getLastMessagesFor'])
  )
}

function hasMethods(value: unknown, names: readonly string[]): boolean {
  if (typeof value !== 'object' || value === null) return false
  return names.every((name) => typeof Reflect.get(value, name) === 'function')
}
