import { Agent as PlainAgent, type AgentOptions } from 'node:http'
import { Agent } from 'node:https'
import type { Duplex } from 'node:stream'
import type { Environment } from '../../clients/http/environment.ts'
import { loadDriver } from '../../store-kit/load-package.ts'
import { dynamodbStore } from '../dynamodb/index.ts'
import type { InspectableStore } from '../../store-kit/diagnostics.ts'
import { s3Store } from '../s3/index.ts'
import type { AwsClient } from './client.ts'

/** The required form of a DynamoDB URL. */
export const dynamodbUrlRule = 'it must be "dynamodb://table", optionally with "?region=" and "&endpoint="'
/** The required form of an S3 URL. */
export const s3UrlRule = 'it must be "s3://bucket/prefix", optionally with "?region=" and "&endpoint="'

const connectionTimeout = 5_000

/**
 * Opens the table that a URL names, using `@aws-sdk/client-dynamodb` from the user's project. Undefined if the URL is
 * invalid.
 */
export async function openDynamoDB(url: string, environment: Environment): Promise<InspectableStore | undefined> {
  const [, table, query] = /^dynamodb:\/\/([\w.-]+)\/?(?:\?([^#]*))?$/i.exec(url) ?? []
  const settings = settingsOf(query, environment, 'DYNAMODB')
  if (table === undefined || !settings) return undefined
  const client = await clientOf('@aws-sdk/client-dynamodb', 'DynamoDB', settings)
  return { ...dynamodbStore({ client, table }), close: async () => client.destroy() }
}

/**
 * Opens the bucket that a URL names, using `@aws-sdk/client-s3` from the user's project. Undefined if the URL is
 * invalid.
 */
export async function openS3(url: string, environment: Environment): Promise<InspectableStore | undefined> {
  const [, bucket, prefix, query] = /^s3:\/\/([\w.-]+)(?:\/([^?#@]*))?(?:\?([^#]*))?$/i.exec(url) ?? []
  const settings = settingsOf(query, environment, 'S3')
  if (bucket === undefined || !settings) return undefined
  // Storage that is compatible with S3 rarely has a host name for each bucket.
  const forcePathStyle = settings.endpoint !== undefined
  const client = await clientOf('@aws-sdk/client-s3', 'S3', { ...settings, forcePathStyle })
  return { ...s3Store({ client, bucket, prefix: prefix || undefined }), close: async () => client.destroy() }
}

interface AwsSettings {
  readonly region: string | undefined
  readonly endpoint: string | undefined
  readonly credentials: object | undefined
}

/** Settings from the URL and the environment. The SDK finds the rest itself, as AWS tools do. */
function settingsOf(query: string | undefined, environment: Environment, service: string): AwsSettings | undefined {
  const { region, endpoint, ...others } = Object.fromEntries(new URLSearchParams(query))
  if (
    Object.keys(others).length > 0 ||
    region === '' ||
    (endpoint !== undefined && !/^https?:\/\/[^@]+$/.test(endpoint))
  ) {
    return undefined
  }
  const { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey } = environment
  return {
    region: region || environment['AWS_REGION'] || environment['AWS_DEFAULT_REGION'] || undefined,
    endpoint: endpoint ?? (environment[`AWS_ENDPOINT_URL_${service}`] || environment['AWS_ENDPOINT_URL'] || undefined),
    credentials:
      accessKeyId && secretAccessKey
        ? { accessKeyId, secretAccessKey, sessionToken: environment['AWS_SESSION_TOKEN'] || undefined }
        : undefined,
  }
}

interface OwnClient extends AwsClient {
  destroy(): void
}

async function clientOf(packageName: string, name: 'DynamoDB' | 'S3', settings: object): Promise<OwnClient> {
  const sdk = await loadDriver(packageName)
  const Client = Reflect.get(sdk, name) as new (settings: object) => OwnClient
  const given = Object.fromEntries(Object.entries(settings).filter(([, value]) => value !== undefined))
  const requestHandler = {
    connectionTimeout,
    httpAgent: new ResettingAgent(keptAlive),
    httpsAgent: new FreshTlsAgent(keptAlive),
  }
  // The elector retries at its own pace. After a hidden retry, the first try's own write could cause a refusal.
  return new Client({ ...given, maxAttempts: 1, requestHandler })
}

const keptAlive: AgentOptions = { keepAlive: true }

/** When a connection closes, closes all idle ones as well, because after a network failure all of them may be dead. */
class ResettingAgent extends PlainAgent {
  override createConnection(...given: Parameters<PlainAgent['createConnection']>): Duplex | null | undefined {
    return freshening(this, super.createConnection(...given))
  }
}

class FreshTlsAgent extends Agent {
  override createConnection(...given: Parameters<Agent['createConnection']>): Duplex | null | undefined {
    return freshening(this, super.createConnection(...given))
  }
}

function freshening(agent: PlainAgent, socket: Duplex | null | undefined): Duplex | null | undefined {
  return socket?.once('close', () => {
    for (const idle of Object.values(agent.freeSockets).flat()) idle?.destroy()
  })
}
