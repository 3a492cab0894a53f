import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { LeaseStore } from 'tenure'
import type { ServiceStore } from 'tenure/stores/service'
import { usageError } from './errors.ts'
import { failureOf } from './failures.ts'
import { tell } from './output.ts'
import { variableOf } from './settings.ts'
import type { Credentials } from './store-settings.ts'
import { didYouMean } from './suggestions.ts'

/** Opens the store that was chosen. Its code is loaded only now; nothing is connected yet. */
export async function openChosenStore(
  settings: Credentials & { readonly store: string | undefined },
): Promise<LeaseStore> {
  const { store } = settings
  if (store === undefined) {
    const rule = 'such as file:///var/lib/leases, kubernetes://default or https://elections.example.com'
    throw usageError([`--store is missing, and TENURE_STORE is not set. It must be a URL, ${rule}.`])
  }
  return open(store, settings)
}

/** Opens the service that was chosen. */
export async function openChosenService(
  settings: Credentials & { readonly url: string | undefined },
): Promise<ServiceStore> {
  const { url } = settings
  const rule = 'the address of an election service, such as http://127.0.0.1:7070'
  if (url === undefined) {
    const hint = isAddress(process.env['TENURE_STORE']) ? ' Try --url "$TENURE_STORE".' : ''
    throw usageError([`--url is missing, and TENURE_URL is not set. It must be ${rule}.${hint}`])
  }
  if (!isAddress(url))
    throw usageError([`--url must be ${rule}.${didYouMean(withScheme(url)) || ' Other stores have no such command.'}`])
  // What serves these two schemes is a service.
  return (await open(url, settings)) as ServiceStore
}

function isAddress(url = ''): boolean {
  return /^https?:/i.test(url)
}

/** A host that was given alone; with a port it is rather one nearby. */
function withScheme(url: string): string | undefined {
  const [, port] = /^(?:[\w.-]+|\[[\da-f:]+\])(:\d+)?\/?$/i.exec(url) ?? []
  if (port !== undefined) return `http://${url}`
  return /^[\w.-]+\.[\w-]+\/?$/.test(url) ? `https://${url}` : undefined
}

/** A folder that is not there is made by whoever campaigns first. To who asks, a wrong name looks just like that. */
export function noteMissingFolder({ store = '' }: { readonly store: string | undefined }): void {
  if (!/^file:/i.test(store)) return
  const folder = fileURLToPath(store)
  if (existsSync(folder)) return
  tell(`There is no folder ${folder} yet: nobody has campaigned there, or its name is another one.`)
}

export function isService(store: LeaseStore): store is ServiceStore {
  return 'request' in store
}

async function open(url: string, credentials: Credentials): Promise<LeaseStore> {
  const { openStore } = await import('tenure/stores')
  try {
    return await openStore(url, { environment: environmentOf(credentials) })
  } catch (error) {
    throw failureOf(error)
  }
}

/** What was chosen by flag takes the place of what the environment says. */
function environmentOf({ tokenFile, caFile, certFile, keyFile }: Credentials): NodeJS.ProcessEnv {
  const chosen = Object.entries({ tokenFile, caFile, certFile, keyFile }).map(([key, path]) => [variableOf(key), path])
  const environment = { ...process.env, ...Object.fromEntries(chosen) } as NodeJS.ProcessEnv
  const byFlag = tokenFile !== undefined && tokenFile !== resolve(process.env['TENURE_TOKEN_FILE'] ?? '')
  return byFlag ? { ...environment, TENURE_TOKEN: undefined } : environment
}
