import { BlobServiceClient, ContainerClient } from '@azure/storage-blob'
import { describe, expect, test } from 'vitest'
import { azureBlobStore, type AzureContainer } from '../../../src/stores/azure-blob/index.ts'
import { findingsOfContainer } from '../../../src/stores/azure-blob/diagnostics.ts'
import { openStore } from '../../../src/stores/index.ts'

const key = Buffer.from('a key').toString('base64')
const connection = `DefaultEndpointsProtocol=https;AccountName=myaccount;AccountKey=${key};EndpointSuffix=core.windows.net`

test('azureBlobStore accepts a ContainerClient of the SDK', () => {
  const containers: readonly AzureContainer[] = [
    new ContainerClient('https://myaccount.blob.core.windows.net/leases'),
    BlobServiceClient.fromConnectionString(connection).getContainerClient('leases'),
  ]
  for (const container of containers) {
    expect(azureBlobStore({ container })).toMatchObject({ expiry: 'observed', terms: true })
  }
})

test.each([
  ['container', () => azureBlobStore({} as never)],
  ['container', () => azureBlobStore({ container: BlobServiceClient.fromConnectionString(connection) } as never)],
  ['prefix', () => azureBlobStore({ container: new ContainerClient('https://a.example.com/leases'), prefix: 'a//b' })],
  [
    'clock',
    () => azureBlobStore({ container: new ContainerClient('https://a.example.com/leases'), clock: {} as never }),
  ],
])('azureBlobStore refuses an invalid "%s"', (option, make) => {
  expect(make).toThrow(new RegExp(option))
  expect(make).toThrow(expect.objectContaining({ code: 'INVALID_OPTION' }))
})

describe('URLs of Azure Blob Storage', () => {
  test.each([
    ['azblob://myaccount/leases', { AZURE_STORAGE_CONNECTION_STRING: connection }],
    ['azblob://myaccount/leases/team/elections', { AZURE_STORAGE_KEY: key }],
    ['azblob://myaccount/leases', { AZURE_STORAGE_SAS_TOKEN: '?sv=2024-01-01&sig=abc' }],
    ['azblob://devstoreaccount1/leases?endpoint=http://127.0.0.1:10000/devstoreaccount1', { AZURE_STORAGE_KEY: key }],
  ])('openStore opens %s with credentials from the environment, without connecting', async (url, environment) => {
    const store = await openStore(url, { environment })
    expect(store).toMatchObject({ expiry: 'observed', terms: true })
    await store.close?.()
  })

  test.each([
    'azblob:leases',
    'azblob://myaccount',
    'azblob://myaccount/',
    'azblob://My_Account/leases',
    'azblob://myaccount/Le',
    'azblob://myaccount/leases?sig=hunter2',
    'azblob://me:hunter2@myaccount/leases',
    'azblob://myaccount/leases?endpoint=http://10.0.0.1/myaccount',
    'azblob://myaccount/leases?endpoint=https://me:hunter2@host',
  ])('openStore refuses %s without showing a secret', async (url) => {
    const environment = { AZURE_STORAGE_KEY: key }
    const error: unknown = await openStore(url, { environment }).catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'INVALID_OPTION' })
    expect(String(error)).not.toContain('hunter2')
  })

  test('openStore names the variables when there are no credentials', async () => {
    await expect(openStore('azblob://myaccount/leases', { environment: {} })).rejects.toMatchObject({
      code: 'UNAUTHORIZED',
      message: expect.stringMatching(/AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN/),
    })
  })

  test('openStore refuses a connection string that is unusable or belongs to another account', async () => {
    for (const [text, rule] of [
      ['hunter2', 'must be the connection string'],
      [connection, 'belongs to the account "myaccount"'],
    ] as const) {
      const environment = { AZURE_STORAGE_CONNECTION_STRING: text }
      const error: unknown = await openStore('azblob://other/leases', { environment }).catch(
        (thrown: unknown) => thrown,
      )
      expect(error).toMatchObject({ code: 'INVALID_OPTION', message: expect.stringContaining(rule) })
      expect(String(error)).not.toMatch(new RegExp(`hunter2|${key}`))
    }
  })
})

test('inspect reports a container whose blobs cannot be overwritten', () => {
  const immutable = { risk: 'tight', text: expect.stringContaining('leases cannot be renewed') }
  expect(findingsOfContainer({ hasImmutabilityPolicy: true, hasLegalHold: false })).toEqual([immutable])
  expect(findingsOfContainer({ hasImmutabilityPolicy: false, hasLegalHold: true })).toEqual([immutable])
  expect(findingsOfContainer({ hasImmutabilityPolicy: false, hasLegalHold: false })).toEqual([])
})
