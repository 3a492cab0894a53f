import { resolve } from 'node:path'
import type { LeaseStore } from 'tenure'
import type { ServiceStore } from 'tenure/stores/service'
import { usageError } from './errors.ts'
import { failureOf } from './failures.ts'
import { variableOf } from './settings.ts'
import type { Credentials } from './store-settings.ts'

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
  if (url === undefined) throw usageError([`--url is missing, and TENURE_URL is not set. It must be ${rule}.`])
  if (!/^https?:/i.test(url)) throw usageError([`--url must be ${rule}. Other stores have no such command.`])
  // What serves these two schemes is a service.
  return (await open(url, settings)) as ServiceStore
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
