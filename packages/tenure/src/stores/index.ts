import { fileURLToPath } from 'node:url'
import { invalidOption, TenureError } from '../errors.ts'
import type { LeaseStore } from '../lease-store.ts'
import { checkObject } from '../options.ts'
import { memoryStore, type MemoryStore } from './memory.ts'
import { redactedUrl } from './redacted-url.ts'

export { casStore, type CompareAndSwap, type VersionedValue } from './cas.ts'
export { memoryStore, type MemoryStore } from './memory.ts'
export { memoryTtlStorage } from './memory-ttl.ts'
export { redactedUrl } from './redacted-url.ts'
export { ttlStore, type TtlStorage } from './ttl.ts'

// One for the whole process: two electors that each had their own would both lead.
let sharedMemory: MemoryStore | undefined

type Environment = Readonly<Record<string, string | undefined>>

/** What {@link openStore} takes beside the URL. */
export interface OpenStoreOptions {
  /** Where credentials are looked for. Default: `process.env`. */
  readonly environment?: Environment | undefined
}

/** Every scheme, and who opens it. What a store needs beside Node it imports itself, when it is opened. */
const openers: Readonly<Record<string, (url: string, environment: Environment) => LeaseStore | Promise<LeaseStore>>> = {
  memory(url) {
    if (url !== 'memory:') throw refusedUrl(url, 'nothing may follow "memory:"; all callers share one store')
    return (sharedMemory ??= memoryStore())
  },
  async file(url) {
    const directory = pathOf(url)
    const { fileStore } = await import('./file.ts')
    return fileStore({ directory })
  },
  async kubernetes(url, environment) {
    const namespace = /^kubernetes:\/\/([^/?#@:]*)\/?$/i.exec(url)?.[1]
    if (namespace === undefined) throw refusedUrl(url, 'it must be "kubernetes://" with a namespace, or without')
    const { kubernetesStore } = await import('./kubernetes.ts')
    const { fromKubeConfig } = await import('../kubernetes/kube-config.ts')
    // As kubectl does it: the pod's own account, or the user's configuration.
    const client = environment['KUBERNETES_SERVICE_HOST'] ? undefined : fromKubeConfig()
    return kubernetesStore({ client, namespace: namespace || undefined })
  },
  http: openService,
  https: openService,
}

async function openService(urls: string, environment: Environment): Promise<LeaseStore> {
  const { serviceStore } = await import('./service.ts')
  const { environmentCredentials } = await import('./service/environment.ts')
  return serviceStore({ url: urls.split(','), ...environmentCredentials(environment) })
}

/**
 * Opens the store that a URL names: `memory:`, `file:///dir`, `kubernetes://namespace`, or the `https://host` of an
 * election service. Its own code is loaded only then.
 *
 * @example
 * const store = await openStore(process.env.TENURE_STORE ?? 'file:///var/lib/my-app/leases')
 */
export async function openStore(url: string, options: OpenStoreOptions = {}): Promise<LeaseStore> {
  const rule = 'it must be a URL such as "file:///var/lib/leases"'
  if (typeof url !== 'string') throw invalidOption('store', url, rule)
  checkObject('options', options)
  const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(url)?.[1]?.toLowerCase()
  if (scheme === undefined) throw refusedUrl(url, rule)
  const open = Object.hasOwn(openers, scheme) ? openers[scheme] : undefined
  if (open) return open(url, options.environment ?? process.env)
  const known = Object.keys(openers)
  const near = /^(k8s|kube)$/.test(scheme) ? 'kubernetes' : nearest(scheme, known)
  throw new TenureError(
    'UNKNOWN_STORE',
    // The scheme alone: the rest may hold a password.
    `There is no store for "${scheme}:".${near ? ` Did you mean "${near}:"?` : ''} Known are ${known.map((name) => `"${name}:"`).join(', ')}.`,
  )
}

function pathOf(url: string): string {
  const rule = 'it must be "file:///" with an absolute path, percent-encoded, and nothing after it'
  // A relative path would be taken for one below the root.
  if (!/^file:\/\/\/[^?#]*$/i.test(url)) throw refusedUrl(url, rule)
  try {
    return fileURLToPath(url)
  } catch {
    throw refusedUrl(url, rule)
  }
}

function refusedUrl(url: string, rule: string): TypeError {
  return invalidOption('store', redactedUrl(url), rule)
}

/** The candidate that a typing mistake may have been meant for. */
function nearest(word: string, candidates: readonly string[]): string | undefined {
  const [best] = candidates
    .map((candidate) => ({ candidate, edits: distance(candidate, word) }))
    .filter(({ candidate, edits }) => edits <= Math.max(candidate.length, word.length) / 2)
    .sort((one, other) => one.edits - other.edits)
  return best?.candidate
}

/** How many letters to add, drop or change to make one word of another. */
function distance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, index) => index)
  for (let above = 0; above < from.length; above++) {
    const next = [above + 1]
    for (let index = 0; index < to.length; index++) {
      const change = (row[index] ?? 0) + (from[above] === to[index] ? 0 : 1)
      next.push(Math.min(change, (row[index + 1] ?? 0) + 1, (next[index] ?? 0) + 1))
    }
    row = next
  }
  return row[to.length] ?? 0
}
