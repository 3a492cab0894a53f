/**
 * Keeps elections in DynamoDB. Each election has two items, the record and the highest term, which are overwritten only
 * at the version that was read.
 *
 * @module
 */
import { systemClock, type Clock } from '../../common/clock.ts'
import { invalidOption } from '../../common/errors.ts'
import type { CallOptions } from '../../engine/lease-store.ts'
import { checkClock } from '../../engine/check-values.ts'
import { checkOptions, type OptionNames } from '../../common/check-options.ts'
import { awsCaller, checkAwsClient, type AwsCaller, type AwsClient } from '../aws/client.ts'
import { awsFailure, awsNameOf } from '../aws/failures.ts'
import { bounded } from '../../store-kit/call-deadline.ts'
import type { VersionedValue } from '../../store-kit/cas-store.ts'
import type { DynamoDBApi, DynamoDBItem } from './api.ts'
import { inspectTable } from './diagnostics.ts'
import type { Finding, InspectableStore } from '../../store-kit/diagnostics.ts'
import type { Page } from '../../store-kit/list.ts'
import { twoObjectStore, type ObjectKind, type ObjectBackend } from '../../store-kit/two-object-store.ts'

export type { AwsClient } from '../aws/client.ts'
export type { DynamoDBApi } from './api.ts'
export type { InspectableStore } from '../../store-kit/diagnostics.ts'

/** Options of {@link dynamodbStore}. */
export interface DynamoDBStoreOptions {
  /**
   * A `DynamoDB` or a `DynamoDBClient` of `@aws-sdk/client-dynamodb` 3. The caller owns it: the store never closes it.
   */
  readonly client: DynamoDBApi | AwsClient
  /** A table with a string partition key named `id` and no sort key. */
  readonly table: string
  readonly clock?: Clock | undefined
}

const names: OptionNames<DynamoDBStoreOptions> = { client: true, table: true, clock: true }

/**
 * Keeps elections in a DynamoDB table, using a client that the program already has.
 *
 * @example
 * const store = dynamodbStore({ client: new DynamoDB({}), table: 'leases' })
 * await lead({ store, election: 'nightly-report' }, work)
 */
export function dynamodbStore(options: DynamoDBStoreOptions): InspectableStore {
  checkOptions('dynamodbStore()', options, names)
  const { client, table, clock = systemClock } = options
  checkAwsClient(client, 'a DynamoDB or DynamoDBClient of "@aws-sdk/client-dynamodb"')
  checkClock(clock)
  if (typeof table !== 'string' || table === '') throw invalidOption('table', table, 'it must be the name of a table')
  const server = new DynamoDBTable(awsCaller<DynamoDBApi>(client, '@aws-sdk/client-dynamodb'), table, clock)
  return { ...twoObjectStore(server, clock), inspect: (call) => server.inspect(call) }
}

class DynamoDBTable implements ObjectBackend {
  readonly #call: AwsCaller<DynamoDBApi>
  readonly #table: string
  readonly #clock: Clock

  constructor(call: AwsCaller<DynamoDBApi>, table: string, clock: Clock) {
    this.#call = call
    this.#table = table
    this.#clock = clock
  }

  get(election: string, kind: ObjectKind, call: CallOptions): Promise<VersionedValue | undefined> {
    return this.#bounded(call, async (signal) => {
      const key = { id: { S: idOf(election, kind) } }
      // Without ConsistentRead, a lagging replica may answer.
      const input = { TableName: this.#table, Key: key, ConsistentRead: true }
      const { Item: item } = await this.#call('getItem', input, signal)
      return item && valueOf(item)
    })
  }

  put(
    election: string,
    kind: ObjectKind,
    text: string,
    version: string | undefined,
    call: CallOptions,
  ): Promise<string | undefined> {
    const next = this.#clock.randomId()
    const condition =
      version === undefined
        ? { ConditionExpression: 'attribute_not_exists(#id)', ExpressionAttributeNames: { '#id': 'id' } }
        : isAt(version)
    const item = { id: { S: idOf(election, kind) }, version: { S: next }, content: { S: text } }
    const input = { TableName: this.#table, Item: item, ...condition }
    return this.#bounded(call, async (signal) => {
      try {
        await this.#call('putItem', input, signal)
        return next
      } catch (error) {
        if (isOvertaken(error)) return undefined
        throw error
      }
    })
  }

  remove(election: string, kind: ObjectKind, version: string, call: CallOptions): Promise<boolean> {
    const input = { TableName: this.#table, Key: { id: { S: idOf(election, kind) } }, ...isAt(version) }
    return this.#bounded(call, async (signal) => {
      try {
        await this.#call('deleteItem', input, signal)
        return true
      } catch (error) {
        if (isOvertaken(error)) return false
        throw error
      }
    })
  }

  list({ after, limit }: Page, call: CallOptions) {
    return this.#bounded(call, async (signal) => {
      const start = after === undefined ? {} : { ExclusiveStartKey: { id: { S: after } } }
      const input = { TableName: this.#table, Limit: limit, ConsistentRead: true, ...start }
      const { Items: items = [], LastEvaluatedKey: last } = await this.#call('scan', input, signal)
      const records = items.filter(({ id }) => id?.S?.startsWith(idOf('', 'record')))
      return { values: records.map(valueOf), next: last?.['id']?.S }
    })
  }

  nameOf(election: string, kind: ObjectKind): string {
    return `the item "${idOf(election, kind)}" of the table ${this.#table}`
  }

  /** Problems with the table's settings. */
  inspect(call: CallOptions): Promise<readonly Finding[]> {
    return this.#bounded(call, (signal) => inspectTable(this.#call, this.#table, signal))
  }

  async #bounded<T>(call: CallOptions, action: (signal: AbortSignal) => Promise<T>): Promise<T> {
    try {
      return await bounded(this.#clock, 'DynamoDB', call, action)
    } catch (error) {
      if (call.signal.aborted) throw error
      throw awsFailure(error, `table ${this.#table}`, missing(this.#table))
    }
  }
}

function isAt(version: string) {
  return {
    ConditionExpression: '#version = :version',
    ExpressionAttributeNames: { '#version': 'version' },
    ExpressionAttributeValues: { ':version': { S: version } },
  }
}

/** True if the condition did not hold or another write was in progress. In both cases nothing was written. */
function isOvertaken(error: unknown): boolean {
  return /^(ConditionalCheckFailed|TransactionConflict)Exception$/.test(awsNameOf(error))
}

function idOf(election: string, kind: ObjectKind): string {
  return `${kind}/${election}`
}

/** An item that another program wrote may lack the content or the version. */
function valueOf({ content, version }: DynamoDBItem): VersionedValue {
  return { value: content?.S ?? '', version: version?.S ?? '' }
}

function missing(table: string): string {
  return `The table does not exist in this region and account. Create it: aws dynamodb create-table --table-name ${table} --attribute-definitions AttributeName=id,AttributeType=S --key-schema AttributeName=id,KeyType=HASH --billing-mode PAY_PER_REQUEST`
}
