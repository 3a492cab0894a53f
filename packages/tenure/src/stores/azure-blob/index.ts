/**
 * Keeps elections in Azure Blob Storage. Each election has two blobs, the record and the highest term, which are
 * overwritten only at the ETag that was read.
 *
 * @module
 */
import { text as textOf } from 'node:stream/consumers'
import { checkOptions, checkMethods, type OptionNames } from '../../common/check-options.ts'
import { systemClock, type Clock } from '../../common/clock.ts'
import { TenureError } from '../../common/errors.ts'
import { checkClock } from '../../engine/check-values.ts'
import type { CallOptions } from '../../engine/lease-store.ts'
import { bounded } from '../../store-kit/call-deadline.ts'
import type { VersionedValue } from '../../store-kit/cas-store.ts'
import type { Finding, InspectableStore } from '../../store-kit/diagnostics.ts'
import type { Page } from '../../store-kit/list.ts'
import { maxPageSize, objectOf, objectPrefix, readRecords } from '../../store-kit/object-names.ts'
import { twoObjectStore, type ObjectBackend, type ObjectKind } from '../../store-kit/two-object-store.ts'
import type { AzureConditions, AzureContainer } from './container.ts'
import { findingsOfContainer } from './diagnostics.ts'
import { azureCodeOf, azureFailure } from './failures.ts'

export type { InspectableStore } from '../../store-kit/diagnostics.ts'
export type { AzureBlob, AzureConditions, AzureContainer, AzureContainerProperties } from './container.ts'

/** Options of {@link azureBlobStore}. */
export interface AzureBlobStoreOptions {
  /** A `ContainerClient` of `@azure/storage-blob` 12. The caller owns it. */
  readonly container: AzureContainer
  /** Prefix of the blob names. Default: `tenure`. */
  readonly prefix?: string | undefined
  readonly clock?: Clock | undefined
}

const names: OptionNames<AzureBlobStoreOptions> = { container: true, prefix: true, clock: true }

/**
 * Keeps elections in a container of Azure Blob Storage, using a client that the program already has.
 *
 * @example
 * const container = new ContainerClient('https://myaccount.blob.core.windows.net/leases', credential)
 * const store = azureBlobStore({ container })
 * await lead({ store, election: 'nightly-report' }, work)
 */
export function azureBlobStore(options: AzureBlobStoreOptions): InspectableStore {
  checkOptions('azureBlobStore()', options, names)
  const { container, prefix = 'tenure', clock = systemClock } = options
  checkClock(clock)
  const methods = ['getBlockBlobClient', 'listBlobsByHierarchy', 'getProperties']
  checkMethods('container', container, methods, 'a ContainerClient of @azure/storage-blob')
  const backend = new AzureBlobs(container, objectPrefix(prefix), clock)
  return { ...twoObjectStore(backend, clock), inspect: (call) => backend.inspect(call) }
}

class AzureBlobs implements ObjectBackend {
  readonly #container: AzureContainer
  readonly #folder: string
  readonly #clock: Clock

  constructor(container: AzureContainer, folder: string, clock: Clock) {
    this.#container = container
    this.#folder = folder
    this.#clock = clock
  }

  get(election: string, kind: ObjectKind, call: CallOptions): Promise<VersionedValue | undefined> {
    return this.#bounded(call, (signal) => this.#read(objectOf(this.#folder, election, kind), signal))
  }

  put(
    election: string,
    kind: ObjectKind,
    content: string,
    version: string | undefined,
    call: CallOptions,
  ): Promise<string | undefined> {
    return this.#bounded(call, (abortSignal) =>
      unlessOvertaken(async () => {
        const conditions: AzureConditions = version === undefined ? { ifNoneMatch: '*' } : { ifMatch: version }
        // A blob must never be served from a cache, even if the container is public.
        const blobHTTPHeaders = { blobContentType: 'application/json', blobCacheControl: 'no-store' }
        const blob = this.#container.getBlockBlobClient(objectOf(this.#folder, election, kind))
        const options = { abortSignal, conditions, blobHTTPHeaders }
        const { etag } = await blob.upload(content, Buffer.byteLength(content), options)
        // The outcome of this write is unknown. The next read shows it.
        if (!etag) throw new TenureError('RECORD_INVALID', 'Azure Storage returned no ETag for a write.')
        return etag
      }),
    )
  }

  async remove(election: string, kind: ObjectKind, version: string, call: CallOptions): Promise<boolean> {
    const removed = await this.#bounded(call, (abortSignal) =>
      unlessOvertaken(async () => {
        const blob = this.#container.getBlockBlobClient(objectOf(this.#folder, election, kind))
        await blob.delete({ abortSignal, conditions: { ifMatch: version } })
        return true
      }),
    )
    return removed ?? false
  }

  list({ after, limit }: Page, call: CallOptions) {
    return this.#bounded(call, async (signal) => {
      // Blobs in subfolders do not belong to this store.
      const blobs = this.#container.listBlobsByHierarchy('/', { prefix: this.#folder, abortSignal: signal })
      const start = after === undefined ? {} : { continuationToken: after }
      const { value: page } = await blobs.byPage({ maxPageSize: Math.min(limit, maxPageSize), ...start }).next()
      const found: readonly { readonly name: string }[] = page?.segment.blobItems ?? []
      const own = found.map(({ name }) => name)
      const values = await readRecords(this.#folder, own, (name) => this.#read(name, signal))
      return { values, next: page?.continuationToken || undefined }
    })
  }

  nameOf(election: string, kind: ObjectKind): string {
    return `${this.#container.containerName}/${objectOf(this.#folder, election, kind)}`
  }

  /** Problems with the container's settings. Empty if the caller may not read them. */
  inspect(call: CallOptions): Promise<readonly Finding[]> {
    return this.#bounded(call, async (abortSignal) => {
      try {
        return findingsOfContainer(await this.#container.getProperties({ abortSignal }))
      } catch (error) {
        if (azureCodeOf(error).startsWith('Authorization')) return []
        throw error
      }
    })
  }

  async #read(name: string, abortSignal: AbortSignal): Promise<VersionedValue | undefined> {
    try {
      const blob = this.#container.getBlockBlobClient(name)
      const { etag = '', readableStreamBody: body } = await blob.download(undefined, undefined, { abortSignal })
      return { value: body ? await textOf(body) : '', version: etag }
    } catch (error) {
      if (azureCodeOf(error) === 'BlobNotFound') return undefined
      throw error
    }
  }

  async #bounded<T>(call: CallOptions, action: (signal: AbortSignal) => Promise<T>): Promise<T> {
    try {
      return await bounded(this.#clock, 'Azure Storage', call, action)
    } catch (error) {
      if (call.signal.aborted) throw error
      throw azureFailure(error, `${this.#container.containerName}/${this.#folder}`)
    }
  }
}

/**
 * Returns undefined if the condition did not hold, so that nothing was written. Azure answers other reasons with the
 * same statuses, such as the lease of another program on the blob. Those are errors.
 */
async function unlessOvertaken<T>(write: () => Promise<T>): Promise<T | undefined> {
  try {
    return await write()
  } catch (error) {
    if (/^(ConditionNotMet|BlobAlreadyExists|BlobNotFound)$/.test(azureCodeOf(error))) return undefined
    throw error
  }
}
