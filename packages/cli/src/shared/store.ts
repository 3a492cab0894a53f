import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { LeaseStore } from 'tenure'
import type { OpenStoreOptions } from 'tenure/stores'
import type { KubernetesStore } from 'tenure/stores/kubernetes'
import type { MulticlusterStore } from 'tenure/stores/multicluster'
import type { ServiceStore } from 'tenure/stores/service'
import { usageError } from './arguments/errors.ts'
import { variableOf } from './arguments/settings.ts'
import type { StoreCredentials } from './arguments/store-settings.ts'
import { didYouMean } from './arguments/suggestions.ts'
import { callWithTimeout } from './call-with-timeout.ts'
import { commandErrorOf } from './failures.ts'
import { tell } from './output.ts'
import { nodeOfToken } from './token-claims.ts'

/** Opens the chosen store. Imports the store's code only now, and does not connect yet. */
export async function openChosenStore(
  settings: StoreCredentials & { readonly store: string | undefined },
  file?: OpenStoreOptions['file'],
): Promise<LeaseStore> {
  const { store } = settings
  if (store === undefined) {
    const rule =
      'such as file:///var/lib/leases, kubernetes://default, multicluster://default, etcd://10.0.0.1:2379, mysql://host/database, postgres://host/database, redis://10.0.0.1:6379 or https://elections.example.com'
    throw usageError([`--store is missing, and TENURE_STORE is not set. It must be a URL, ${rule}.`])
  }
  return open(store, settings, file)
}

/** Opens the chosen service. */
export async function openChosenService(
  settings: StoreCredentials & { readonly url: string | undefined },
): Promise<ServiceStore> {
  const { url } = settings
  const rule = 'the address of an election service, such as http://127.0.0.1:7070'
  if (url === undefined) {
    throw usageError([`--url is missing, and TENURE_URL is not set. It must be ${rule}.`])
  }
  if (!isAddress(url))
    throw usageError([
      `--url must be ${rule}.${didYouMean(withScheme(url)) || ' Other stores do not support this command.'}`,
    ])
  // http: and https: URLs always open a service.
  return (await open(url, settings)) as ServiceStore
}

function isAddress(url = ''): boolean {
  return /^https?:/i.test(url)
}

/** Guesses the URL for a host without a scheme. A host with a port is probably local, so it gets http:. */
function withScheme(url: string): string | undefined {
  const [, port] = /^(?:[\w.-]+|\[[\da-f:]+\])(:\d+)?\/?$/i.exec(url) ?? []
  if (port !== undefined) return `http://${url}`
  return /^[\w.-]+\.[\w-]+\/?$/.test(url) ? `https://${url}` : undefined
}

/**
 * Reports a missing folder. The first candidate creates the folder, so a reader cannot distinguish a misspelled name
 * from an unused one.
 */
export function noteMissingFolder({ store = '' }: { readonly store: string | undefined }): void {
  if (!/^file:/i.test(store)) return
  const folder = fileURLToPath(store)
  if (existsSync(folder)) return
  tell(`The folder ${folder} does not exist yet. Either nobody has campaigned there, or the name is wrong.`)
}

/** Reports a missing namespace. Reports nothing if this user may not read namespaces. */
export async function noteMissingNamespace(store: LeaseStore, timeoutMs: number): Promise<void> {
  if (!isKubernetes(store)) return
  const exists = await callWithTimeout(timeoutMs, (call) => store.namespaceExists(call)).catch(() => undefined)
  if (exists === false) tell(`The namespace ${JSON.stringify(store.namespace)} does not exist in this cluster.`)
}

/** Uses a store and closes it. A failure is reported in command-line terms. */
export async function withStore<T>(store: LeaseStore, use: () => Promise<T>): Promise<T> {
  try {
    return await use()
  } catch (error) {
    throw commandErrorOf(error)
  } finally {
    await store.close?.()
  }
}

export function isService(store: LeaseStore): store is ServiceStore {
  return 'request' in store
}

/** Whether an API server can be asked for the caller's rights on the store's objects. */
export function isKubernetes(store: LeaseStore): store is KubernetesStore | MulticlusterStore {
  return 'rights' in store
}

async function open(url: string, credentials: StoreCredentials, file?: OpenStoreOptions['file']): Promise<LeaseStore> {
  const { openStore } = await import('tenure/stores')
  try {
    return await openStore(url, { environment: storeEnvironment(credentials), file })
  } catch (error) {
    throw commandErrorOf(error)
  }
}

/** The node named in the token for a service. The service accepts no other identity, so this is the default. */
export function nodeFromToken(url: string | undefined, credentials: StoreCredentials): string | undefined {
  return isAddress(url) ? nodeOfToken(storeEnvironment(credentials)) : undefined
}

/** Returns the environment, with the values of flags replacing their variables. */
export function storeEnvironment({ tokenFile, caFile, certFile, keyFile }: StoreCredentials): NodeJS.ProcessEnv {
  const chosen = Object.entries({ tokenFile, caFile, certFile, keyFile }).map(([key, path]) => [variableOf(key), path])
  const environment = { ...process.env, ...Object.fromEntries(chosen) } as NodeJS.ProcessEnv
  const byFlag = tokenFile !== undefined && tokenFile !== resolve(process.env['TENURE_TOKEN_FILE'] ?? '')
  // For the command of a shard, TENURE_TOKEN is the shard's fencing token.
  const isOfShard = process.env['TENURE_SHARD'] !== undefined
  return byFlag || isOfShard ? { ...environment, TENURE_TOKEN: undefined } : environment
}
