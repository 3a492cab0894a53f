/**
 * Opens stores by their URL.
 *
 * @module
 */
import { fileURLToPath } from 'node:url'
import { nearest } from '@tenure/internal/nearest'
import { invalidOption, optionError, redactedUrl, show, TenureError } from '../common/errors.ts'
import type { Environment } from '../clients/http/environment.ts'
import { rememberOrigin } from '../engine/guard/store-origin.ts'
import type { LeaseStore } from '../engine/lease-store.ts'
import { warnOnce } from '../log/advice.ts'
import { checkOptions } from '../common/check-options.ts'
import type { FileStoreOptions } from './file/index.ts'
import { memoryStore, type MemoryStore } from './memory/index.ts'

export { redactedUrl } from '../common/errors.ts'
export type { Finding, InspectableStore } from '../store-kit/diagnostics.ts'
export { memoryTtlStorage } from '../store-kit/memory-ttl-storage.ts'

// One store for the whole process. If each elector had its own, they would all lead.
let sharedMemory: MemoryStore | undefined

/** Options for {@link openStore}. */
export interface OpenStoreOptions {
  /** Where to look for credentials. Default: `process.env`. */
  readonly environment?: Environment | undefined
  /** Options of a file store besides its directory. Other stores ignore them. */
  readonly file?: Pick<FileStoreOptions, 'fastTakeover' | 'shareWithGroup' | 'signOfLife'> | undefined
}

type StoreOpener = (
  url: string,
  environment: Environment,
  options: OpenStoreOptions,
) => LeaseStore | Promise<LeaseStore>

/** Maps every scheme to its opener. A store's dependencies are imported only when the store is opened. */
const openers: Readonly<Record<string, StoreOpener>> = {
  memory(url) {
    if (url !== 'memory:')
      throw refusedUrl(url, 'it must be exactly "memory:", because all callers in the process share one store')
    return (sharedMemory ??= memoryStore())
  },
  async file(url, _environment, options) {
    const directory = pathOf(url)
    const { fileStore } = await import('./file/index.ts')
    const shared = /\?shareWithGroup=true$/i.test(url) && { shareWithGroup: true }
    return fileStore({ ...options.file, directory, ...shared })
  },
  async kubernetes(url, environment) {
    const { kubernetesStore } = await import('./kubernetes/index.ts')
    return kubernetesStore(await clusterOf(url, environment))
  },
  async multicluster(url, environment) {
    const { multiclusterStore } = await import('./multicluster/index.ts')
    return multiclusterStore(await clusterOf(url, environment))
  },
  consul: openConsulUrl,
  consuls: openConsulUrl,
  etcd: openEtcd,
  etcds: openEtcd,
  mysql: openMysqlUrl,
  mariadb: openMysqlUrl,
  nats: openNatsUrl,
  natss: openNatsUrl,
  postgres: openDatabase,
  postgresql: openDatabase,
  redis: openRedisUrl,
  rediss: openRedisUrl,
  async dynamodb(url, environment) {
    const { openDynamoDB, dynamodbUrlRule } = await import('./aws/open.ts')
    return (await openDynamoDB(url, environment)) ?? refuse(url, dynamodbUrlRule)
  },
  async s3(url, environment) {
    const { openS3, s3UrlRule } = await import('./aws/open.ts')
    return (await openS3(url, environment)) ?? refuse(url, s3UrlRule)
  },
  async azblob(url, environment) {
    const { openAzureBlob, azureBlobUrlRule } = await import('./azure-blob/open.ts')
    return (await openAzureBlob(url, environment)) ?? refuse(url, azureBlobUrlRule)
  },
  async gs(url, environment) {
    const { openGcs, gcsUrlRule } = await import('./gcs/open.ts')
    return openGcs(url, environment) ?? refuse(url, gcsUrlRule)
  },
  async sqlite(url) {
    const { openSqlite, sqliteUrlRule } = await import('./sqlite/open.ts')
    return openSqlite(url) ?? refuse(url, sqliteUrlRule)
  },
  http: openService,
  https: openService,
}

/**
 * Matches a password with an unencoded slash. Its first part would otherwise be parsed as the port, or shown as the
 * host.
 */
const misplacedLogin = /^(?:consuls?|etcds?|mysql|mariadb|natss?|postgres(?:ql)?|rediss?|https?):\/\/[^/?#]*[/?#].*@/is

/** Uses the pod's service account in a cluster and the user's kubeconfig elsewhere, as kubectl does. */
async function clusterOf(url: string, environment: Environment) {
  const namespace = /^\w+:\/\/([^/?#@:]*)\/?$/.exec(url)?.[1]
  if (namespace === undefined) {
    throw refusedUrl(url, `it must be "${url.split(':')[0]}://", optionally followed by a namespace`)
  }
  const { fromKubeConfig } = await import('../clients/kubernetes/credentials/kube-config.ts')
  const client = environment['KUBERNETES_SERVICE_HOST'] ? undefined : fromKubeConfig()
  return { client, namespace: namespace || undefined }
}

async function openDatabase(url: string, environment: Environment): Promise<LeaseStore> {
  const rule = 'it must be "postgres://user:password@host:5432/database", percent-encoded, with one host'
  if (!/^\w+:\/\//.test(url) || !URL.canParse(url)) throw refusedUrl(url, rule)
  const { openPostgres } = await import('./postgres/open.ts')
  return openPostgres(new URL(url), environment)
}

async function openMysqlUrl(url: string, environment: Environment): Promise<LeaseStore> {
  const { openMysql, mysqlUrlRule } = await import('./mysql/open.ts')
  return (await openMysql(url, environment)) ?? refuse(url, mysqlUrlRule)
}

async function openRedisUrl(url: string, environment: Environment): Promise<LeaseStore> {
  const { openRedis, redisUrlRule } = await import('./redis/open.ts')
  const store = await openRedis(url, environment)
  if (!store) throw refusedUrl(url, redisUrlRule)
  adviseOnTls(url, environment)
  return store
}

async function openNatsUrl(url: string, environment: Environment): Promise<LeaseStore> {
  const { openNats, natsUrlRule } = await import('./nats/open.ts')
  const store = await openNats(url, environment)
  if (!store) throw refusedUrl(url, natsUrlRule)
  adviseOnTls(url, environment)
  return store
}

async function openService(urls: string, environment: Environment): Promise<LeaseStore> {
  const { serviceStore } = await import('./service/index.ts')
  const { environmentCredentials } = await import('./service/environment.ts')
  // The URL must not contain a password. A URL with "@" is not split at commas, so that it is refused as a whole:
  // otherwise the error would show the first part of a password with a comma.
  return serviceStore({ url: urls.includes('@') ? urls : urls.split(','), ...environmentCredentials(environment) })
}

async function openConsulUrl(url: string, environment: Environment): Promise<LeaseStore> {
  const { openConsul, consulUrlRule } = await import('./consul/open.ts')
  const store = openConsul(url, environment) ?? refuse(url, consulUrlRule)
  adviseOnTls(url, environment)
  return store
}

async function openEtcd(url: string, environment: Environment): Promise<LeaseStore> {
  const { etcdStore } = await import('./etcd/index.ts')
  const { etcdAddressOf, etcdUrlRule } = await import('../clients/etcd/url.ts')
  const address = etcdAddressOf(url, environment)
  if (!address) throw refusedUrl(url, etcdUrlRule)
  adviseOnTls(url, environment)
  return etcdStore(address)
}

/**
 * Opens the store that a URL names: `memory:`, `file:///dir`, `kubernetes://namespace`, `multicluster://namespace`,
 * `etcd://host:2379/prefix` (`etcds:` with TLS), `mysql://user@host/database`, `postgres://user@host/database`,
 * `redis://host:6379`, `nats://host:4222/bucket`, `dynamodb://table`, `s3://bucket/prefix`, `gs://bucket/prefix`,
 * `sqlite:///file.db`, or the `https://host` of an election service. The store's code is loaded only when its URL is
 * opened. To share a directory among the users of a group, use `file:///dir?shareWithGroup=true`.
 *
 * @example
 * const store = await openStore(process.env.TENURE_STORE ?? 'file:///var/lib/my-app/leases')
 */
export async function openStore(url: string, options: OpenStoreOptions = {}): Promise<LeaseStore> {
  const rule = 'it must be a URL such as "file:///var/lib/leases"'
  if (typeof url !== 'string') throw notUrl(url)
  checkOptions('openStore()', options, { environment: true, file: true })
  const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(url)?.[1]?.toLowerCase()
  if (scheme === undefined) throw refusedUrl(url, rule)
  const open = Object.hasOwn(openers, scheme) ? openers[scheme] : undefined
  if (misplacedLogin.test(url)) {
    throw refusedUrl(
      url,
      'no "@" may follow the first slash: percent-encode user and password ("/" is "%2F", "@" is "%40")',
    )
  }
  if (open) {
    const store = await open(url, options.environment ?? process.env, options)
    // A guard process has only the environment of this process.
    const isForGuard = options.environment === undefined || scheme === 'file'
    if (isForGuard) rememberOrigin(store, { url, isSlow: options.file?.fastTakeover === false })
    return store
  }
  const known = Object.keys(openers)
  const near = /^(k8s|kube)$/.test(scheme) ? 'kubernetes' : nearest(scheme, known)
  throw new TenureError(
    'UNKNOWN_STORE',
    // Show only the scheme, because the rest may contain a password.
    `There is no store for "${scheme}:".${near ? ` Did you mean "${near}:"?` : ''} Known schemes: ${known.map((name) => `"${name}:"`).join(', ')}.`,
  )
}

function pathOf(url: string): string {
  const rule =
    'it must be "file:///" with an absolute path, percent-encoded, optionally followed by "?shareWithGroup=true"'
  // A relative path would be resolved against the root.
  if (!/^file:\/\/\/[^?#]*(\?shareWithGroup=true)?$/i.test(url)) throw refusedUrl(url, rule)
  try {
    return fileURLToPath(url)
  } catch {
    throw refusedUrl(url, rule)
  }
}

function refuse(url: string, rule: string): never {
  throw refusedUrl(url, rule)
}

/**
 * Warns if certificates are set but the scheme does not use TLS, because the user may believe that the connection is
 * encrypted.
 */
function adviseOnTls(url: string, environment: Environment): void {
  const scheme = /^(redis|etcd|consul|nats):/i.exec(url)?.[1]?.toLowerCase()
  const set = ['TENURE_CA_FILE', 'TENURE_CERT_FILE', 'TENURE_KEY_FILE'].filter((name) => environment[name])
  if (scheme === undefined || set.length === 0) return
  const text = `${set.join(', ')} is set, but "${scheme}:" sends everything unencrypted, including passwords. Use "${scheme}s:" for TLS.`
  warnOnce('INVALID_OPTION', text)
}

function notUrl(url: unknown): TypeError {
  const question = url === undefined ? '. Is the environment variable that should contain it set?' : '.'
  const text = `openStore() takes a URL such as "file:///var/lib/leases", but got ${show(url)}${question}`
  return optionError({ option: 'url' }, text)
}

/**
 * Redacts a host list, because text that looks like several hosts may be credentials without their "@", with a numeric
 * password.
 */
function refusedUrl(url: string, rule: string): TypeError {
  const shown = redactedUrl(url).replace(/^([a-z][a-z0-9+.-]*:\/\/)[^/?#@]*,[^/?#@]*(?=[/?#]|$)/i, '$1***')
  return invalidOption('store', shown, rule)
}
