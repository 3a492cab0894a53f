import { fileURLToPath } from 'node:url'
import { invalidOption, TenureError } from '../errors.ts'
import type { LeaseStore } from '../lease-store.ts'
import { memoryStore, type MemoryStore } from './memory.ts'

export { casStore, type CompareAndSwap, type VersionedValue } from './cas.ts'
export { memoryStore, type MemoryStore } from './memory.ts'
export { memoryTtlStorage } from './memory-ttl.ts'
export { ttlStore, type TtlStorage } from './ttl.ts'

// One for the whole process: two electors that each had their own would both lead.
let sharedMemory: MemoryStore | undefined

const openers: Readonly<Record<string, (url: string) => LeaseStore | Promise<LeaseStore>>> = {
  memory(url) {
    if (url !== 'memory:')
      throw invalidOption('store', url, 'nothing may follow "memory:"; all callers share one store')
    return (sharedMemory ??= memoryStore())
  },
  async file(url) {
    const directory = pathOf(url)
    const { fileStore } = await import('./file.ts')
    return fileStore({ directory })
  },
  async kubernetes(url) {
    const namespace = /^kubernetes:\/\/([^/?#@:]*)\/?$/i.exec(url)?.[1]
    if (namespace === undefined)
      throw invalidOption('store', url, 'it must be "kubernetes://" with a namespace, or without')
    const { kubernetesStore } = await import('./kubernetes.ts')
    const { fromKubeConfig } = await import('../kubernetes/kube-config.ts')
    // As kubectl does it: the pod's own account, or the user's configuration.
    const client = process.env['KUBERNETES_SERVICE_HOST'] ? undefined : fromKubeConfig()
    return kubernetesStore({ client, namespace: namespace || undefined })
  },
  http: openService,
  https: openService,
}

async function openService(urls: string): Promise<LeaseStore> {
  const { serviceStore } = await import('./service.ts')
  const { environmentCredentials } = await import('./service/environment.ts')
  return serviceStore({ url: urls.split(','), ...environmentCredentials(process.env) })
}

/**
 * Opens the store that a URL names: `memory:`, `file:///dir`, `kubernetes://namespace`, or the `https://host` of an
 * election service. Its own code is loaded only then.
 *
 * @example
 * const store = await openStore(process.env.TENURE_STORE ?? 'file:///var/lib/my-app/leases')
 */
export async function openStore(url: string): Promise<LeaseStore> {
  const rule = 'it must be a URL such as "file:///var/lib/leases"'
  if (typeof url !== 'string') throw invalidOption('store', url, rule)
  const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(url)?.[1]?.toLowerCase()
  if (scheme === undefined) throw invalidOption('store', url, rule)
  const open = Object.hasOwn(openers, scheme) ? openers[scheme] : undefined
  if (open) return open(url)
  const known = Object.keys(openers)
  const near = nearest(scheme, known)
  throw new TenureError(
    'UNKNOWN_STORE',
    // The scheme alone: the rest may hold a password.
    `There is no store for "${scheme}:".${near ? ` Did you mean "${near}:"?` : ''} Known are ${known.map((name) => `"${name}:"`).join(', ')}.`,
  )
}

function pathOf(url: string): string {
  const rule = 'it must be "file:///" with an absolute path, percent-encoded, and nothing after it'
  // A relative path would be taken for one below the root.
  if (!/^file:\/\/\/[^?#]*$/i.test(url)) throw invalidOption('store', url, rule)
  try {
    return fileURLToPath(url)
  } catch {
    throw invalidOption('store', url, rule)
  }
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
