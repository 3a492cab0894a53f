/**
 * Keeps elections in S3 and compatible storage. Each election has two objects, the record and the highest term, which
 * are overwritten only at the version that was read.
 *
 * @module
 */
import { systemClock, type Clock } from '../../common/clock.ts'
import { invalidOption, TenureError } from '../../common/errors.ts'
import type { CallOptions } from '../../engine/lease-store.ts'
import { checkClock } from '../../engine/check-values.ts'
import { checkOptions, type OptionNames } from '../../common/check-options.ts'
import { awsCaller, checkAwsClient, type AwsCaller, type AwsClient } from '../aws/client.ts'
import { awsFailure, awsNameOf, awsStatusOf } from '../aws/failures.ts'
import { bounded } from '../../store-kit/call-deadline.ts'
import type { VersionedValue } from '../../store-kit/cas-store.ts'
import type { Finding, InspectableStore } from '../../store-kit/diagnostics.ts'
import { objectPrefix, maxPageSize, objectOf, readRecords } from '../../store-kit/object-names.ts'
import type { Page } from '../../store-kit/list.ts'
import { twoObjectStore, type ObjectKind, type ObjectBackend } from '../../store-kit/two-object-store.ts'
import type { S3Api } from './api.ts'
import { inspectBucket } from './diagnostics.ts'

export type { AwsClient } from '../aws/client.ts'
export type { InspectableStore } from '../../store-kit/diagnostics.ts'
export type { S3Api } from './api.ts'

/** Options of {@link s3Store}. */
export interface S3StoreOptions {
  /** An `S3` or an `S3Client` of `@aws-sdk/client-s3` 3. The caller owns it: the store never closes it. */
  readonly client: S3Api | AwsClient
  readonly bucket: string
  /** Prefix of the object names. Default: `tenure`. */
  readonly prefix?: string | undefined
  readonly clock?: Clock | undefined
}

const names: OptionNames<S3StoreOptions> = { client: true, bucket: true, prefix: true, clock: true }
const probeTimeoutMs = 10_000
/** An ETag that no object has. */
const noETag = '"00000000000000000000000000000000"'

/**
 * Keeps elections in an S3 bucket, using a client that the program already has. Before its first write, the store
 * checks on a separate object that the server enforces conditional writes.
 *
 * @example
 * const store = s3Store({ client: new S3({}), bucket: 'my-company-leases' })
 * await lead({ store, election: 'nightly-report' }, work)
 */
export function s3Store(options: S3StoreOptions): InspectableStore {
  checkOptions('s3Store()', options, names)
  const { client, bucket, prefix = 'tenure', clock = systemClock } = options
  checkAwsClient(client, 'an S3 or S3Client of "@aws-sdk/client-s3"')
  checkClock(clock)
  if (typeof bucket !== 'string' || bucket === '') {
    throw invalidOption('bucket', bucket, 'it must be the name of a bucket')
  }
  const server = new S3Bucket(awsCaller<S3Api>(client, '@aws-sdk/client-s3'), bucket, objectPrefix(prefix), clock)
  return { ...twoObjectStore(server, clock), inspect: (call) => server.inspect(call) }
}

class S3Bucket implements ObjectBackend {
  readonly #call: AwsCaller<S3Api>
  readonly #bucket: string
  readonly #folder: string
  readonly #clock: Clock
  #probe: Promise<void> | undefined

  constructor(call: AwsCaller<S3Api>, bucket: string, folder: string, clock: Clock) {
    this.#call = call
    this.#bucket = bucket
    this.#folder = folder
    this.#clock = clock
  }

  get(election: string, kind: ObjectKind, call: CallOptions): Promise<VersionedValue | undefined> {
    return this.#bounded(call, (signal) => this.#read(objectOf(this.#folder, election, kind), signal))
  }

  put(
    election: string,
    kind: ObjectKind,
    text: string,
    version: string | undefined,
    call: CallOptions,
  ): Promise<string | undefined> {
    return this.#bounded(call, async (signal) => {
      await this.#probed()
      return this.#write(objectOf(this.#folder, election, kind), text, version, signal)
    })
  }

  list({ after, limit }: Page, call: CallOptions) {
    return this.#bounded(call, async (signal) => {
      const input = {
        Bucket: this.#bucket,
        Prefix: this.#folder,
        // Objects in subfolders do not belong to this store.
        Delimiter: '/',
        MaxKeys: Math.min(limit, maxPageSize),
        ...(after !== undefined && { StartAfter: `${this.#folder}${after}` }),
      }
      const answer = await this.#call('listObjectsV2', input, signal)
      const keys = (answer.Contents ?? []).flatMap(({ Key: key }) => key ?? [])
      const folders = (answer.CommonPrefixes ?? []).flatMap(({ Prefix: prefix }) =>
        prefix ? [`${prefix}\u{10ffff}`] : [],
      )
      const last = answer.IsTruncated ? [...keys, ...folders].toSorted().at(-1) : undefined
      const values = await readRecords(this.#folder, keys, (key) => this.#read(key, signal))
      return { values, next: last?.slice(this.#folder.length) }
    })
  }

  nameOf(election: string, kind: ObjectKind): string {
    return `s3://${this.#bucket}/${objectOf(this.#folder, election, kind)}`
  }

  /** Problems with the bucket's settings. */
  inspect(call: CallOptions): Promise<readonly Finding[]> {
    return this.#bounded(call, (signal) => inspectBucket(this.#call, this.#bucket, this.#folder, signal))
  }

  async #read(key: string, signal: AbortSignal): Promise<VersionedValue | undefined> {
    try {
      const { Body: body, ETag: version } = await this.#call('getObject', { Bucket: this.#bucket, Key: key }, signal)
      return { value: (await body?.transformToString()) ?? '', version: version ?? '' }
    } catch (error) {
      if (awsNameOf(error) === 'NoSuchKey') return undefined
      throw error
    }
  }

  /** Returns the new ETag, or undefined if the condition did not hold. */
  async #write(
    key: string,
    value: string,
    version: string | undefined,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const condition = version === undefined ? { IfNoneMatch: '*' } : { IfMatch: version }
    const input = { Bucket: this.#bucket, Key: key, Body: value, ContentType: 'application/json', ...condition }
    try {
      const { ETag: written } = await this.#call('putObject', input, signal)
      // The outcome of this write is unknown. The next read shows it.
      if (!written) throw new TenureError('RECORD_INVALID', 'S3 returned no ETag for a write.')
      return written
    } catch (error) {
      if (isOvertaken(error)) return undefined
      throw error
    }
  }

  /**
   * Resolves once the server is known to enforce conditions. All calls share one check, so no call's signal may cancel
   * it.
   */
  #probed(): Promise<void> {
    if (this.#probe) return this.#probe
    const { signal } = new AbortController()
    const call = { signal, timeoutMs: probeTimeoutMs }
    const probe = bounded(this.#clock, 'S3', call, (ending) => this.#tryConditions(ending))
    this.#probe = probe
    probe.catch(() => {
      this.#probe = undefined
    })
    return probe
  }

  /**
   * Some servers, and clients that predate conditional writes, ignore conditions and overwrite anything. This check
   * tests both conditions on a dedicated object, with writes that the server must refuse.
   */
  async #tryConditions(signal: AbortSignal): Promise<void> {
    const key = `${this.#folder}.conditions`
    const text = JSON.stringify({
      purpose:
        'Tenure uses this object to test whether the server enforces conditional writes. It contains nothing else.',
    })
    const isThere = async () => (await this.#write(key, text, undefined, signal)) === undefined
    // On the very first run, the first of the two calls creates the object.
    const creates = (await isThere()) || (await isThere())
    const replaces = creates && (await this.#write(key, text, noETag, signal)) === undefined
    if (!replaces) throw ignoresConditions(creates ? 'If-Match' : 'If-None-Match')
  }

  async #bounded<T>(call: CallOptions, action: (signal: AbortSignal) => Promise<T>): Promise<T> {
    try {
      return await bounded(this.#clock, 'S3', call, action)
    } catch (error) {
      if (call.signal.aborted) throw error
      const place = `s3://${this.#bucket}/${this.#folder}`
      throw awsFailure(error, place, 'The bucket does not exist in this region. Create it, or set the region')
    }
  }
}

/** True if the condition did not hold or another write was in progress. In both cases nothing was written. */
function isOvertaken(error: unknown): boolean {
  const name = awsNameOf(error)
  if (name === 'PreconditionFailed' || name === 'ConditionalRequestConflict' || awsStatusOf(error) === 412) return true
  // The object to be replaced no longer exists.
  return name === 'NoSuchKey'
}

function ignoresConditions(header: string): TenureError {
  const text = `This server or client version ignores the condition ${header}, so two candidates could lead at once. Use a server that enforces it (AWS S3 does), and @aws-sdk/client-s3 3.700 or newer.`
  return new TenureError('UNSAFE_SETTINGS', text)
}
