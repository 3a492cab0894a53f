import { DynamoDB, DynamoDBClient } from '@aws-sdk/client-dynamodb'
import { S3, S3Client } from '@aws-sdk/client-s3'
import { describe, expect, test } from 'vitest'
import { awsFailure } from '../../../src/stores/aws/failures.ts'
import { findingsOfTable } from '../../../src/stores/dynamodb/diagnostics.ts'
import { dynamodbStore, type DynamoDBApi } from '../../../src/stores/dynamodb/index.ts'
import { openStore } from '../../../src/stores/index.ts'
import { s3Store, type S3Api } from '../../../src/stores/s3/index.ts'

const config = { region: 'eu-central-1' }

test('dynamodbStore and s3Store accept SDK clients with all operations and bare clients', () => {
  const whole: readonly [DynamoDBApi, S3Api] = [new DynamoDB(config), new S3(config)]
  for (const client of [whole[0], new DynamoDBClient(config)]) {
    expect(dynamodbStore({ client, table: 'leases' })).toMatchObject({ expiry: 'observed', terms: true })
  }
  for (const client of [whole[1], new S3Client(config)]) {
    expect(s3Store({ client, bucket: 'leases' })).toMatchObject({ expiry: 'observed', terms: true })
  }
})

test.each([
  ['client', () => dynamodbStore({ client: {}, table: 'leases' } as never)],
  ['client', () => dynamodbStore({ client: Promise.resolve(new DynamoDB(config)), table: 'leases' } as never)],
  ['table', () => dynamodbStore({ client: new DynamoDB(config), table: '' })],
  ['clock', () => dynamodbStore({ client: new DynamoDB(config), table: 'leases', clock: {} as never })],
  ['client', () => s3Store({ bucket: 'leases' } as never)],
  ['bucket', () => s3Store({ client: new S3(config), bucket: '' })],
  ['prefix', () => s3Store({ client: new S3(config), bucket: 'leases', prefix: 'a//b' })],
  ['clock', () => s3Store({ client: new S3(config), bucket: 'leases', clock: {} as never })],
])('the AWS stores refuse an invalid "%s"', (option, make) => {
  expect(make).toThrow(new RegExp(`"${option}"`))
  expect(make).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }))
})

describe('URLs of AWS stores', () => {
  test.each([
    'dynamodb://leases?region=eu-central-1',
    'dynamodb://my.leases-2/?endpoint=http://127.0.0.1:8000&region=local',
    's3://leases?region=eu-central-1',
    's3://leases/team/elections?endpoint=https://minio.example.com&region=us-east-1',
  ])('openStore opens %s without connecting', async (url) => {
    const store = await openStore(url, { environment: {} })
    expect(store).toMatchObject({ expiry: 'observed', terms: true })
    await store.close?.()
  })

  test.each([
    'dynamodb:leases',
    'dynamodb://',
    'dynamodb://leases/items',
    'dynamodb://leases?zone=a',
    'dynamodb://me:secret@leases',
    'dynamodb://leases?endpoint=ftp://host',
    's3://',
    's3://leases?colour=red',
    's3://me:secret@leases/a',
    's3://leases?endpoint=http://me:secret@host',
  ])('openStore refuses %s without showing a secret', async (url) => {
    const error = await openStore(url, { environment: {} }).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'INVALID_OPTION', message: expect.not.stringContaining('secret') })
  })
})

test.each([
  ['AccessDeniedException', 400, 'UNAUTHORIZED', false],
  ['ExpiredToken', 400, 'UNAUTHORIZED', false],
  ['CredentialsProviderError', undefined, 'UNAUTHORIZED', false],
  ['ResourceNotFoundException', 400, 'NOT_FOUND', false],
  ['NoSuchBucket', 404, 'NOT_FOUND', false],
  ['ProvisionedThroughputExceededException', 400, 'RATE_LIMITED', true],
  ['SlowDown', 503, 'RATE_LIMITED', true],
  ['ValidationException', 400, 'INVALID_REQUEST', false],
  ['InternalServerError', 500, 'BACKEND_UNAVAILABLE', true],
  ['Error', undefined, 'BACKEND_UNAVAILABLE', true],
])('the AWS error %s is reported with the right code', (name, httpStatusCode, code, retryable) => {
  const error = Object.assign(new Error('because'), { name, $metadata: { httpStatusCode } })
  expect(awsFailure(error, 'table leases', 'There is none')).toMatchObject({
    code,
    retryable,
    cause: error,
    message: expect.stringMatching(/ \(table leases\): because\.$/),
  })
})

describe('findingsOfTable', () => {
  const replicas = [{ RegionName: 'eu-west-1' }, { RegionName: 'us-east-1' }]
  const found = (...given: Parameters<typeof findingsOfTable>) =>
    findingsOfTable(...given).map(({ risk, text }) => `${risk}: ${text}`)

  test('findingsOfTable reports nothing for a single region or for strong consistency across regions', () => {
    expect(found({ DeletionProtectionEnabled: true }, { TimeToLiveStatus: 'DISABLED' })).toEqual([])
    expect(found({ Replicas: replicas, MultiRegionConsistency: 'STRONG' })).toEqual([])
  })

  test('findingsOfTable reports asynchronous global tables, time to live, and missing deletion protection', () => {
    const table = { Replicas: replicas, MultiRegionConsistency: 'EVENTUAL', DeletionProtectionEnabled: false }
    expect(found(table, { TimeToLiveStatus: 'ENABLED', AttributeName: 'until' })).toEqual([
      expect.stringMatching(/^unsafe: It is a global table \(eu-west-1, us-east-1\)/),
      expect.stringMatching(/^tight: Time to live is on, with the attribute "until"/),
      expect.stringMatching(/^tight: Deletion protection is off/),
    ])
  })
})
