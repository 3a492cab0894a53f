import { TenureError } from '../../common/errors.ts'
import { isObject } from '@tenure/internal/objects'
import { messageOf } from '@tenure/internal/message'
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
  const own = 'Use a dedicated bucket for elections'
  if (maxAge > 0) return { text: 'deletes its values after a time (max_age, or "ttl")', remedy: `${own}, without it.` }
  if (settings.storage === 'memory') {
    return {
      text: 'is in memory, so a restart of the server loses all leases and terms',
      remedy: `${own}, on "file" storage.`,
    }
  }
  if (Reflect.get(settings, 'persist_mode') === 'async') {
    return { text: 'confirms writes before they are stored (persist_mode async)', remedy: `${own}, without it.` }
  }
  if (settings.retention !== undefined && settings.retention !== 'limits') {
    return {
      text: `deletes values once they were read (retention ${settings.retention})`,
      remedy: `${own}, created as a bucket.`,
    }
  }
  if (settings.discard !== 'new' && (maxBytes > 0 || maxMessages > 0)) {
    const limit = maxBytes > 0 ? 'max_bytes' : 'max_msgs'
    return {
      text: `deletes its oldest values when it is full (${limit} with discard "old")`,
      remedy: 'Set discard "new".',
    }
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

/** Problems with the settings of a bucket that the store accepts. */
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
    say(
      `The bucket "${bucket}" refuses writes once its values take ${maxBytes} bytes (max_bytes). Leave room for all elections.`,
    )
  }
  return findings
}

const syncs = 'Set "sync_interval: always" in the jetstream block of every server.'

/**
 * Problems with when the servers write to their disks. Only their monitoring ports reveal that, not the connection of a
 * client.
 */
export async function findingsOfDisks(monitors: readonly string[], signal: AbortSignal): Promise<Finding[]> {
  if (monitors.length === 0) {
    const text = `NATS does not reveal sync_interval to a client. By default, a crash of the machine loses the writes of the last two minutes, including leases and terms. ${syncs} To check it here, set "monitor" to the monitoring ports, such as http://host:8222.`
    return [{ risk: 'tight', text }]
  }
  const findings = await Promise.all(monitors.map((monitor) => findingsOfDisk(monitor, signal)))
  return findings.flat()
}

async function findingsOfDisk(monitor: string, signal: AbortSignal): Promise<Finding[]> {
  try {
    const answer = await fetch(new URL('/jsz?config=true', monitor), { signal })
    const found: unknown = await answer.json()
    const config = isObject(found) && isObject(found['config']) ? found['config'] : undefined
    if (config?.['sync_always'] === true) return []
    const seconds = Number(config?.['sync_interval'] ?? Number.NaN) / 1e9
    if (Number.isNaN(seconds)) return [{ risk: 'tight', text: `${monitor} does not show the settings of JetStream.` }]
    const text = `${monitor} writes to its disk every ${seconds} s (sync_interval): a crash of its machine loses the writes since then, and two candidates can lead at once. ${syncs}`
    return [{ risk: 'unsafe', text }]
  } catch (error) {
    return [{ risk: 'tight', text: `${monitor} did not answer: ${messageOf(error)}.` }]
  }
}
