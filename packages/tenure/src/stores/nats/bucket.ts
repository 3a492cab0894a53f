import { createHash } from 'node:crypto'
import type { Clock } from '../../common/clock.ts'
import { isTenureError } from '../../common/errors.ts'
import type { CallOptions } from '../../engine/lease-store.ts'
import { bounded } from '../../store-kit/call-deadline.ts'
import type { VersionedValue } from '../../store-kit/cas-store.ts'
import type { Finding } from '../../store-kit/diagnostics.ts'
import { keysOn, type Page } from '../../store-kit/list.ts'
import { recordOf } from '../../store-kit/record.ts'
import type { ObjectBackend, ObjectKind, ObjectPair } from '../../store-kit/two-object-store.ts'
import { watchTimeoutMs } from '../../store-kit/watch-timeout.ts'
import { OpenWatches } from '../../store-kit/watches.ts'
import type { NatsManager, NatsMessage } from './client.ts'
import type { OpenBuckets, OpenBucket } from './open-buckets.ts'
import { failureOf, isRefusal } from './failures.ts'
import { keyOf } from './keys.ts'
import { findingsOf, findingsOfDisks } from './settings.ts'

/** The key of the writes that prove that a read is current. No key of an election is equal to it. */
const readsKey = '_reads'
/** A watch that lasted this long may be resumed immediately. If it ends sooner, the engine decides when to retry. */
const settledMs = 5_000
const retryReadMs = 20
const mostOnPage = 100

/** The state that a watch has seen, and up to which revision. */
interface WatchedPair extends ObjectPair {
  readonly revision: number
}

/** The two values of each election in a bucket. */
export class NatsBucket implements ObjectBackend {
  readonly #buckets: OpenBuckets
  readonly #clock: Clock
  /** For error messages. */
  readonly #place: string
  readonly #watches = new OpenWatches()

  constructor(buckets: OpenBuckets, place: string, clock: Clock) {
    this.#buckets = buckets
    this.#place = place
    this.#clock = clock
  }

  async get(election: string, kind: ObjectKind, call: CallOptions): Promise<VersionedValue | undefined> {
    return (await this.getBoth(election, call))[kind]
  }

  getBoth(election: string, call: CallOptions): Promise<ObjectPair> {
    return this.#use(call, (bucket, signal) => this.#read(bucket, election, signal))
  }

  put(
    election: string,
    kind: ObjectKind,
    text: string,
    version: string | undefined,
    call: CallOptions,
  ): Promise<string | undefined> {
    return this.#use(call, async ({ kv }) => {
      const key = keyOf(election, kind)
      try {
        const revision = await (version === undefined
          ? kv.create(key, text)
          : kv.update(key, text, revisionIn(version)))
        return versionOf(revision, text)
      } catch (error) {
        if (isRefusal(error)) return undefined
        throw error
      }
    })
  }

  remove(election: string, kind: ObjectKind, version: string, call: CallOptions): Promise<boolean> {
    return this.#use(call, async ({ kv }) => {
      try {
        await kv.delete(keyOf(election, kind), { previousSeq: revisionIn(version) })
        return true
      } catch (error) {
        if (isRefusal(error)) return false
        throw error
      }
    })
  }

  watch(election: string, { signal }: CallOptions): AsyncGenerator<ObjectPair, void, undefined> {
    return this.#watches.run(signal, (ending) => this.#follow(election, ending))
  }

  list(page: Page, call: CallOptions) {
    return this.#use(call, async ({ bucket, settings, manager }, signal) => {
      const prefix = `$KV.${bucket}.`
      const { state } = await manager.streams.info(settings.name, { subjects_filter: `${prefix}>` })
      const records = Object.keys(state.subjects ?? {}).filter((subject) => subject.endsWith('.record'))
      const limit = Math.min(page.limit, mostOnPage)
      const { keys, next } = keysOn({ ...page, limit }, records.toSorted())
      const found = keys.length > 0 ? await lastOf(manager, settings.name, keys, signal) : []
      return { values: found.flatMap((message) => valueOf(message) ?? []), next }
    })
  }

  nameOf(election: string, kind: ObjectKind): string {
    return `the key "${keyOf(election, kind)}" of ${this.#place}`
  }

  inspect(monitors: readonly string[], call: CallOptions): Promise<readonly Finding[]> {
    return this.#use(call, async ({ bucket, settings }, signal) => {
      const findings = [...findingsOf(bucket, settings), ...(await findingsOfDisks(monitors, signal))]
      const rank = ({ risk }: Finding) => (risk === 'unsafe' ? 0 : 1)
      return findings.toSorted((one, other) => rank(one) - rank(other))
    })
  }

  close(): void {
    this.#watches.close()
    this.#buckets.close()
  }

  /**
   * Reads both values at one moment. Any server with a copy of the stream may answer, even one that lags or was cut off
   * from the others. So the store first writes to another key of the same stream. Only an answer that contains this
   * write is current.
   */
  async #read(bucket: OpenBucket, election: string, signal: AbortSignal): Promise<WatchedPair> {
    const { kv, manager, settings } = bucket
    const revision = await kv.put(readsKey, '')
    const subjectOf = (key: string) => `$KV.${bucket.bucket}.${key}`
    const [record, term, reads] = [keyOf(election, 'record'), keyOf(election, 'term'), readsKey].map(subjectOf)
    for (;;) {
      const found = await lastOf(manager, settings.name, [record, term, reads].map(String), signal)
      const at = (subject: string | undefined) => found.find((message) => message.subject === subject)
      if ((at(reads)?.seq ?? 0) >= revision) {
        return { record: valueOf(at(record)), term: valueOf(at(term)), revision }
      }
      await pause(this.#clock, retryReadMs, signal)
    }
  }

  /** Yields the current state, then each change. Resumes after an interruption, possibly on another server. */
  async *#follow(election: string, signal: AbortSignal): AsyncGenerator<WatchedPair, void, undefined> {
    for (let seen: WatchedPair | undefined; ;) {
      if (!seen) {
        seen = await this.#use({ signal }, (bucket, ending) => this.#read(bucket, election, ending))
        yield seen
      }
      const openedMs = this.#clock.monotonicMs()
      let isSilent = false
      try {
        const changes = this.#changes(election, seen, signal, () => (isSilent = true))
        for await (const next of changes) yield (seen = next)
      } catch (error) {
        const failure = failureOf(error, this.#place)
        const isCut = isTenureError(failure) && failure.retryable
        if (!isCut || this.#clock.monotonicMs() - openedMs < settledMs) throw failure
      }
      if (signal.aborted || this.#clock.monotonicMs() - openedMs < settledMs) return
      // Silence can mean that values were deleted without a trace, or that the revisions have restarted.
      if (isSilent) seen = undefined
    }
  }

  async *#changes(
    election: string,
    from: WatchedPair,
    signal: AbortSignal,
    onSilence: () => void,
  ): AsyncGenerator<WatchedPair, void, undefined> {
    const { kv, lost } = await this.#use({ signal }, async (bucket) => bucket)
    const key = keyOf(election, 'record').replace(/record$/, '*')
    const entries = await kv.watch({ key, resumeFromRevision: from.revision + 1 })
    const stop = () => entries.stop()
    const iterator = entries[Symbol.asyncIterator]()
    for (const one of [signal, lost]) one.addEventListener('abort', stop, { once: true })
    try {
      for (let seen = from; !signal.aborted && !lost.aborted;) {
        const timer = this.#clock.setTimer(silenceMs(election, seen), () => {
          onSilence()
          stop()
        })
        const { done, value: entry } = await iterator.next().finally(() => timer.cancel())
        if (done) return
        const kind = entry.key === keyOf(election, 'term') ? 'term' : 'record'
        const value = entry.operation === 'PUT' ? valueAt(entry.revision, entry.value) : undefined
        seen = { ...seen, [kind]: value, revision: entry.revision }
        yield seen
      }
    } finally {
      for (const one of [signal, lost]) one.removeEventListener('abort', stop)
      stop()
    }
  }

  async #use<T>(call: CallOptions, action: (bucket: OpenBucket, signal: AbortSignal) => Promise<T>): Promise<T> {
    try {
      return await bounded(this.#clock, 'NATS', call, (signal) =>
        this.#buckets.use(signal, (bucket) => action(bucket, signal)),
      )
    } catch (error) {
      if (call.signal.aborted) throw error
      throw failureOf(error, this.#place)
    }
  }
}

/** Returns a version that differs after every write, even if the bucket is deleted and its revisions restart. */
function versionOf(revision: number, text: string): string {
  return `${revision}-${createHash('sha256').update(text).digest('hex').slice(0, 16)}`
}

function revisionIn(version: string): number {
  return Number(version.split('-')[0])
}

function valueAt(revision: number, data: Uint8Array): VersionedValue {
  const value = new TextDecoder().decode(data)
  return { value, version: versionOf(revision, value) }
}

/** Undefined if the value was deleted, which leaves a marker. */
function valueOf(message: NatsMessage | undefined): VersionedValue | undefined {
  if (!message || message.header.get('KV-Operation') !== '' || message.header.get('Nats-Marker-Reason') !== '') {
    return undefined
  }
  return valueAt(message.seq, message.data)
}

/** Reads the newest messages of some subjects, all of one moment. */
function lastOf(manager: NatsManager, stream: string, subjects: string[], signal: AbortSignal): Promise<NatsMessage[]> {
  signal.throwIfAborted()
  return new Promise((resolve, reject) => {
    const found: NatsMessage[] = []
    const options = {
      multi_last: subjects,
      batch: subjects.length,
      callback(done: { readonly err?: Error } | null, message: NatsMessage) {
        if (done === null) found.push(message)
        else if (done.err) reject(done.err)
        else resolve(found)
      },
    }
    manager.direct.getLastMessagesFor(stream, options).catch(reject)
  })
}

function silenceMs(election: string, { record }: ObjectPair): number {
  try {
    return watchTimeoutMs(record && recordOf(election, record.value, record.version))
  } catch {
    return watchTimeoutMs(undefined)
  }
}

function pause(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted()
  return new Promise((resolve) => void clock.setTimer(ms, resolve))
}
