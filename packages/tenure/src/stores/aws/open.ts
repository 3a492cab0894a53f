import { Agent as PlainAgent, type AgentOptions } from 'node:http'
import { Agent } from 'node:https'
import type { Duplex } from 'node:stream'
import type { Environment } from '../../http/environment.ts'
import { loadDriver } from '../driver.ts'
import { dynamodbStore } from '../dynamodb.ts'
import type { InspectableStore } from '../finding.ts'
import { s3Store } from '../s3.ts'
import type { AwsClient } from './client.ts'

/** What a URL of DynamoDB must be. */
export const dynamodbUrlRule = 'it must be "dynamodb://table", with "?region=" and "&endpoint=" where they are needed'
/** What a URL of S3 must be. */
export const s3UrlRule = 'it must be "s3://bucket/prefix", with "?region=" and "&endpoint=" where they are needed'

const connectionTimeout = 5_000

/** Opens the table that a URL names, with `@aws-sdk/client-dynamodb` of the user's project; undefined if it names none. */
export async function openDynamoDB(url: string, environment: Environment): Promise<InspectableStore | undefined> {
  const [, table, query] = /^dynamodb:\/\/([\w.-]+)\/?(?:\?([^#]*))?$/i.exec(url) ?? []
  const settings = settingsOf(query, environment, 'DYNAMODB')
  if (table === undefined || !settings) return undefined
  const client = await clientOf('@aws-sdk/client-dynamodb', 'DynamoDB', settings)
  return { ...dynamodbStore({ client, table }), close: async () => client.destroy() }
}

/** Opens the bucket that a URL names, with `@aws-sdk/client-s3` of the user's project; undefined if it names none. */
export async function openS3(url: string, environment: Environment): Promise<InspectableStore | undefined> {
  const [, bucket, prefix, query] = /^s3:\/\/([\w.-]+)(?:\/([^?#@]*))?(?:\?([^#]*))?$/i.exec(url) ?? []
  const settings = settingsOf(query, environment, 'S3')
  if (bucket === undefined || !settings) return undefined
  // What is compatible with S3 is seldom found by a host name for each bucket.
  const forcePathStyle = settings.endpoint !== undefined
  const client = await clientOf('@aws-sdk/client-s3', 'S3', { ...settings, forcePathStyle })
  return { ...s3Store({ client, bucket, prefix: prefix || undefined }), close: async () => client.destroy() }
}

interface Settings {
  readonly region: string | undefined
  readonly endpoint: string | undefined
  readonly credentials: object | undefined
}

/** What a URL and the environment say; the rest the SDK finds by itself, as its own tools do. */
function settingsOf(query: string | undefined, environment: Environment, service: string): Settings | undefined {
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
    httpAgent: new FreshAgent(keptAlive),
    httpsAgent: new FreshTlsAgent(keptAlive),
  }
  // The elector tries again at its own pace, and a refusal after a hidden second try could be of the first one's making.
  return new Client({ ...given, maxAttempts: 1, requestHandler })
}

const keptAlive: AgentOptions = { keepAlive: true }

/** When a connection ends, those that wait for use are ended too: after a cut, all of them may be dead. */
class FreshAgent extends PlainAgent {
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
