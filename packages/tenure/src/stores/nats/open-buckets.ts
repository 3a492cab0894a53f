import type { NatsKv, NatsManager } from './client.ts'
import { checkBucket, type BucketSettings } from './settings.ts'

/** A bucket on a connection. */
export interface BucketAccess {
  readonly kv: NatsKv
  readonly manager: NatsManager
  /** If the store opened the connection itself: closes it, and resolves once it is closed for any reason. */
  readonly connection?: { close(): Promise<unknown>; closed(): Promise<unknown> } | undefined
}

/** A bucket whose settings were checked. */
export interface OpenBucket extends BucketAccess {
  readonly bucket: string
  readonly settings: BucketSettings
  /** Aborts once the connection is closed, or is to be replaced. */
  readonly lost: AbortSignal
}

interface SharedBucket {
  readonly opened: Promise<OpenBucket>
  readonly losing: AbortController
  /** Undefined until it is open. */
  bucket?: OpenBucket
  calls: number
  isRetired: boolean
}

/**
 * Keeps one bucket open. If the store opened the connection itself, an abandoned call retires the connection: no new
 * call uses it, so that a half-open connection does not delay the next call. It is closed after its last pending call.
 */
export class OpenBuckets {
  readonly #open: () => Promise<BucketAccess>
  #current: SharedBucket | undefined

  constructor(open: () => Promise<BucketAccess>) {
    this.#open = open
  }

  /** Runs one action. `ending` aborts when its call has ended. */
  async use<T>(ending: AbortSignal, action: (bucket: OpenBucket) => Promise<T>): Promise<T> {
    const shared = (this.#current ??= this.#connect())
    let isPending = true
    const end = () => {
      if (!isPending) return
      isPending = false
      shared.calls--
      settle(shared)
    }
    const abandon = () => {
      // Only the caller can replace the caller's own connection.
      if (!shared.bucket || shared.bucket.connection) this.#retire(shared)
      // The client may wait for an answer forever. That must not keep the connection open.
      end()
    }
    shared.calls++
    ending.addEventListener('abort', abandon, { once: true })
    try {
      return await action(await shared.opened)
    } finally {
      ending.removeEventListener('abort', abandon)
      end()
    }
  }

  /** Pending calls keep their connection until they end. */
  close(): void {
    if (this.#current) this.#retire(this.#current)
  }

  #connect(): SharedBucket {
    const losing = new AbortController()
    const shared: SharedBucket = { opened: this.#checked(losing), losing, calls: 0, isRetired: false }
    const retire = () => this.#retire(shared)
    shared.opened.then((bucket) => {
      shared.bucket = bucket
      bucket.connection?.closed().then(retire, retire)
    }, retire)
    return shared
  }

  async #checked(losing: AbortController): Promise<OpenBucket> {
    const access = await this.#open()
    try {
      const { bucket, streamInfo } = await access.kv.status()
      checkBucket(bucket, streamInfo.config)
      return { ...access, bucket, settings: streamInfo.config, lost: losing.signal }
    } catch (error) {
      void access.connection?.close().catch(() => undefined)
      throw error
    }
  }

  #retire(shared: SharedBucket): void {
    if (this.#current === shared) this.#current = undefined
    shared.isRetired = true
    shared.losing.abort()
    settle(shared)
  }
}

function settle({ opened, calls, isRetired }: SharedBucket): void {
  if (calls > 0 || !isRetired) return
  opened.then(
    ({ connection }) => connection?.close().catch(() => undefined),
    () => undefined,
  )
}
