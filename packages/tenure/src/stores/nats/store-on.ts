import type { Clock } from '../../common/clock.ts'
import { invalidOption } from '../../common/errors.ts'
import type { InspectableStore } from '../../store-kit/diagnostics.ts'
import { twoObjectStore } from '../../store-kit/two-object-store.ts'
import { NatsBucket } from './bucket.ts'
import { OpenBuckets, type BucketAccess } from './open-buckets.ts'

/** Settings of {@link storeOn}. */
interface StoreSettings {
  /** Names the bucket in errors. */
  readonly place: string
  /** See `NatsStoreOptions`. */
  readonly monitor: readonly string[] | undefined
  readonly clock: Clock
}

/** Builds the store on a bucket that `open` opens whenever it is not open. */
export function storeOn(
  open: () => Promise<BucketAccess>,
  { place, monitor = [], clock }: StoreSettings,
): InspectableStore {
  checkMonitors(monitor)
  const bucket = new NatsBucket(new OpenBuckets(open), place, clock)
  const store = twoObjectStore(bucket, clock)
  return {
    ...store,
    inspect: (call) => bucket.inspect(monitor, call),
    close: async () => bucket.close(),
  }
}

function checkMonitors(monitor: unknown): void {
  const isUrl = (one: unknown) => typeof one === 'string' && /^https?:\/\//.test(one) && URL.canParse(one)
  if (Array.isArray(monitor) && monitor.every(isUrl)) return
  throw invalidOption('monitor', monitor, 'it must be an array of URLs such as "http://10.0.0.1:8222"')
}
