import { isLoopbackHost } from '@tenure/internal/loopback'
import type { Environment } from '../../clients/http/environment.ts'
import { invalidOption, TenureError } from '../../common/errors.ts'
import type { InspectableStore } from '../../store-kit/diagnostics.ts'
import { loadDriver } from '../../store-kit/load-package.ts'
import type { AzureContainer } from './container.ts'
import { azureBlobStore } from './index.ts'

/** The required form of a URL. */
export const azureBlobUrlRule =
  'it must be "azblob://account/container/prefix", without a key or a SAS, optionally with "?endpoint=" (another address of the account)'

/** The exports of `@azure/storage-blob` that this file uses. */
interface AzureSdk {
  readonly ContainerClient: new (url: string, credential?: unknown, options?: object) => AzureContainer
  readonly BlobServiceClient: {
    fromConnectionString(
      text: string,
      options?: object,
    ): {
      readonly accountName: string
      getContainerClient(name: string): AzureContainer
    }
  }
  readonly StorageSharedKeyCredential: new (account: string, key: string) => object
}

const packageName = '@azure/storage-blob'
// The elector retries at its own pace. After a hidden retry, the first try's own write could cause a refusal.
const clientOptions = { retryOptions: { maxTries: 1 } }

/**
 * Opens the container that a URL names, using `@azure/storage-blob` from the user's project. The credentials are in the
 * environment, under the names that Azure's own tools use. Undefined if the URL is invalid.
 */
export async function openAzureBlob(url: string, environment: Environment): Promise<InspectableStore | undefined> {
  const form = /^azblob:\/\/([a-z0-9]{3,24})\/(\$root|[a-z0-9](?:-?[a-z0-9]){2,62})(?:\/([^?#@]*))?(?:\?([^#@]*))?$/
  const [, account, name, prefix, query] = form.exec(url) ?? []
  if (account === undefined || name === undefined) return undefined
  const { endpoint, ...others } = Object.fromEntries(new URLSearchParams(query))
  if (Object.keys(others).length > 0) return undefined
  const base = endpoint === undefined ? `https://${account}.blob.core.windows.net` : endpointOf(endpoint)
  if (base === undefined) return undefined
  const sdk = (await loadDriver(packageName)) as AzureSdk
  const container = credentialIn(environment, account, endpoint !== undefined)(sdk, base, name)
  return azureBlobStore({ container, prefix: prefix || undefined })
}

/** An address to which credentials may be sent. */
function endpointOf(endpoint: string): string | undefined {
  const url = URL.canParse(endpoint) ? new URL(endpoint) : undefined
  const isSafe = url?.protocol === 'https:' || (url?.protocol === 'http:' && isLoopbackHost(url.hostname))
  if (!url || !isSafe || url.search || url.hash || url.username || url.password) return undefined
  return url.href.replace(/\/$/, '')
}

type OpenContainer = (sdk: AzureSdk, base: string, name: string) => AzureContainer

/** Chooses the first credential that is set. */
function credentialIn(environment: Environment, account: string, hasEndpoint: boolean): OpenContainer {
  const {
    AZURE_STORAGE_CONNECTION_STRING: connection,
    AZURE_STORAGE_KEY: key,
    AZURE_STORAGE_SAS_TOKEN: sas,
  } = environment
  if (connection && !hasEndpoint) {
    return ({ BlobServiceClient }, _base, name) => {
      const service = fromConnectionString(() => BlobServiceClient.fromConnectionString(connection, clientOptions))
      if (service.accountName === account) return service.getContainerClient(name)
      throw invalidOption(
        'AZURE_STORAGE_CONNECTION_STRING',
        '***',
        `it belongs to the account "${service.accountName}", but the URL names "${account}"`,
      )
    }
  }
  if (key) {
    return ({ ContainerClient, StorageSharedKeyCredential }, base, name) =>
      new ContainerClient(`${base}/${name}`, new StorageSharedKeyCredential(account, key), clientOptions)
  }
  if (sas) {
    return ({ ContainerClient }, base, name) =>
      new ContainerClient(`${base}/${name}?${sas.replace(/^\?/, '')}`, undefined, clientOptions)
  }
  const text = `"azblob:" needs credentials in the environment: AZURE_STORAGE_CONNECTION_STRING${hasEndpoint ? ' (without "?endpoint=")' : ''}, AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN. For a managed identity, use azureBlobStore() with a ContainerClient and a credential of @azure/identity.`
  throw new TenureError('UNAUTHORIZED', text)
}

/** The SDK's own message may show a part of the text. */
function fromConnectionString<T>(open: () => T): T {
  try {
    return open()
  } catch {
    throw invalidOption(
      'AZURE_STORAGE_CONNECTION_STRING',
      '***',
      'it must be the connection string of a storage account',
    )
  }
}
