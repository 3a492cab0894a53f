import { TenureError } from '../../common/errors.ts'
import type { Finding } from '../../store-kit/diagnostics.ts'

/** The configuration of the stream behind a bucket, as far as the store checks it. */
export interface BucketSettings {
  readonly name: string
  readonly storage?: string
  readonly retention?: string
  readonly discard?: string
  readonly max_age?: number
  readonly max_bytes?: number
  readonly max_msgs?: number
  readonly num_replicas?: number
  readonly allow_direct?: boolean
  readonly mirror?: object | undefined
  readonly sources?: readonly object[] | undefined
}

/** Throws if the server could drop or replace a record in a bucket with these settings, or serve an outdated one. */
export function checkBucket(bucket: string, settings: BucketSettings): void {
  const reason = dangerIn(settings)
  if (reason === undefined) return
  const { text, remedy } = reason
  throw new TenureError(
    'UNSAFE_SETTINGS',
    `The bucket "${bucket}" ${text}, and two candidates could lead at once. ${remedy}`,
  )
}

function dangerIn(settings: BucketSettings): { readonly text: string; readonly remedy: string } | undefined {
  const { max_age: maxAge = 0, max_bytes: maxBytes = -1, max_msgs: maxMessages = -1 } = settings
  const own = 'Use a bucket of its own for elections'
  if (maxAge > 0) return { text: 'deletes its values after a time (max_age, or "ttl")', remedy: `${own}, without it.` }
  if (settings.storage === 'memory') {
    return { text: 'is in memory, so a restart of the server loses all leases and terms', remedy: `${own}, on "file" storage.` }
  }
  if (Reflect.get(settings, 'persist_mode') === 'async') {
    return { text: 'confirms writes before they are stored (persist_mode async)', remedy: `${own}, without it.` }
  }
  if (settings.retention !== undefined && settings.retention !== 'limits') {
    return { text: `deletes values once they were read (retention ${settings.retention})`, remedy: `${own}, created as a bucket.` }
  }
  if (settings.discard !== 'new' && (maxBytes > 0 || maxMessages > 0)) {
    const limit = maxBytes > 0 ? 'max_bytes' : 'max_msgs'
    return { text: `deletes its oldest values when it is full (${limit} with discard "old")`, remedy: 'Set discard "new".' }
  }
  if (settings.mirror !== undefined || (settings.sources?.length ?? 0) > 0) {
    return { text: 'is a copy of other buckets (mirror or sources)', remedy: 'Use the original bucket.' }
  }
  if (settings.allow_direct !== true) {
    const text = 'has allow_direct off, so a read cannot prove that it is current'
    return { text, remedy: 'Turn it on: nats stream edit --allow-direct.' }
  }
  return undefined
}

/** Problems with the settings of a bucket that the store accepts, worst first. */
export function findingsOf(bucket: string, settings: BucketSettings): Finding[] {
  const { num_replicas: replicas = 1, max_bytes: maxBytes = -1 } = settings
  const findings: Finding[] = []
  const say = (text: string) => void findings.push({ risk: 'tight', text })
  if (replicas === 1) {
    say(
      `The bucket "${bucket}" has one replica: while its server is down, nobody leads, and if the disk is lost, so are all leases and terms. Use three replicas.`,
    )
  } else if (replicas % 2 === 0) {
    say(`The bucket "${bucket}" has ${replicas} replicas, which tolerate no more failures than ${replicas - 1} would.`)
  }
  if (maxBytes > 0) {
    say(`The bucket "${bucket}" refuses writes once it has ${maxBytes} bytes (max_bytes). Leave room for all elections.`)
  }
  say(
    'NATS does not reveal sync_interval to this connection. By default the server writes to the disk every two minutes, so a crash of its machine loses that much. Set "sync_interval: always" in the jetstream block of every server.',
  )
  return findings
}
