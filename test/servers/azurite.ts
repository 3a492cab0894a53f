import { ContainerClient, StorageSharedKeyCredential } from '@azure/storage-blob'
import { programs } from './programs.ts'
import type { ServerKind } from './server.ts'

/** The account that the emulator has, and its published key. */
export const azuriteAccount = 'devstoreaccount1'
export const azuriteKey = 'Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=='

/** Microsoft's emulator of Azure Blob Storage, in memory. */
export const azurite: ServerKind = {
  name: 'Azurite',
  program: programs.azurite,
  args: ({ port }) => {
    const place = ['--blobHost', '127.0.0.1', '--blobPort', String(port)]
    return [...place, '--inMemoryPersistence', '--silent', '--disableTelemetry', '--skipApiVersionCheck']
  },
  probe: ({ port }) => fetch(`http://127.0.0.1:${port}/`, { signal: AbortSignal.timeout(1_000) }),
  url: (port) => `http://127.0.0.1:${port}`,
  stopSignal: 'SIGKILL',
}

/** Returns a client of a container on an emulator at this URL. */
export function localContainer(url: string, name: string, options: object = {}): ContainerClient {
  const credential = new StorageSharedKeyCredential(azuriteAccount, azuriteKey)
  const retryOptions = { maxTries: 1 }
  return new ContainerClient(`${url}/${azuriteAccount}/${name}`, credential, { retryOptions, ...options })
}
