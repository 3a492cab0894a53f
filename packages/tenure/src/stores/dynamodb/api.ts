import type { SendOptions } from '../aws/client.ts'

/** An item of a table, limited to the fields that this store reads. */
export type DynamoDBItem = Readonly<Record<string, { readonly S?: string | undefined } | undefined>>

type Key = Record<string, { S: string }>

/** The part of a `DynamoDB` of `@aws-sdk/client-dynamodb` that is used. */
export interface DynamoDBApi {
  getItem(
    input: { TableName: string; Key: Key; ConsistentRead: boolean },
    options: SendOptions,
  ): Promise<{ readonly Item?: DynamoDBItem | undefined }>
  putItem(
    input: {
      TableName: string
      Item: Key
      ConditionExpression: string
      ExpressionAttributeNames: Record<string, string>
      ExpressionAttributeValues?: Key
    },
    options: SendOptions,
  ): Promise<unknown>
  deleteItem(
    input: {
      TableName: string
      Key: Key
      ConditionExpression: string
      ExpressionAttributeNames: Record<string, string>
      ExpressionAttributeValues: Key
    },
    options: SendOptions,
  ): Promise<unknown>
  scan(
    input: { TableName: string; Limit: number; ConsistentRead: boolean; ExclusiveStartKey?: Key },
    options: SendOptions,
  ): Promise<{
    readonly Items?: readonly DynamoDBItem[] | undefined
    readonly LastEvaluatedKey?: DynamoDBItem | undefined
  }>
  describeTable(
    input: { TableName: string },
    options: SendOptions,
  ): Promise<{ readonly Table?: TableDescription | undefined }>
  describeTimeToLive(
    input: { TableName: string },
    options: SendOptions,
  ): Promise<{ readonly TimeToLiveDescription?: TimeToLive | undefined }>
}

/** The part of a table's description that is used. */
export interface TableDescription {
  readonly Replicas?: readonly { readonly RegionName?: string | undefined }[] | undefined
  readonly MultiRegionConsistency?: string | undefined
  readonly DeletionProtectionEnabled?: boolean | undefined
}

/** The attribute by which the table expires items, if any. */
export interface TimeToLive {
  readonly TimeToLiveStatus?: string | undefined
  readonly AttributeName?: string | undefined
}
