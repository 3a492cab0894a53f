import { DynamoDB } from '@aws-sdk/client-dynamodb'
import { S3 } from '@aws-sdk/client-s3'
import { beforeAll, describe, expect, test } from 'vitest'
import { loadMutant } from '../../../../../test/mutants/mutant.ts'
import { passes } from '../../../../../test/mutants/passes-check.ts'
import { clouds } from '../../../../../test/servers/cloud-emulators.ts'
import { localAws } from '../../../../../test/servers/dynalite.ts'
import { localContainer } from '../../../../../test/servers/azurite.ts'
import { gcsBucket } from '../../../../../test/servers/fake-gcs.ts'
import { localS3 } from '../../../../../test/servers/moto.ts'
import type { RunningServer } from '../../../../../test/servers/server.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'
import { storeConformance } from '../../../../testing/src/conformance/index.ts'
import * as azureBlob from '../../../src/stores/azure-blob/index.ts'
import * as dynamodb from '../../../src/stores/dynamodb/index.ts'
import * as gcs from '../../../src/stores/gcs/index.ts'
import * as s3 from '../../../src/stores/s3/index.ts'
import { azureBlobChecks } from './azure-blob-checks.ts'
import { dynamodbChecks } from './dynamodb-checks.ts'
import { gcsChecks } from './gcs-checks.ts'
import type { Checks, Library } from './cloud-checks.ts'
import { azureBlobMutations, dynamodbMutations, gcsMutations, s3Mutations, type CloudMutation } from './mutants.ts'
import { s3Checks } from './s3-checks.ts'

interface Suite<Module extends object, Options> {
  readonly cloud: (typeof clouds)[keyof typeof clouds]
  readonly file: string
  readonly module: Module
  readonly checks: Checks<Options>
  readonly mutations: readonly CloudMutation[]
  libraryOf(module: Module, server: RunningServer): Library<Options>
}

function describeStore<Module extends object, Options>(name: string, suite: Suite<Module, Options>): void {
  const { cloud, file, module, checks, mutations, libraryOf } = suite
  const find = (check: string, library: Library<Options>): (() => Promise<void>) => {
    const own = checks[check]
    if (own) return () => own(library)
    const { open, remove } = library
    const under = () => ({ store: open(), open: () => open(), remove })
    const run = storeConformance(under, { leaseDurationMs: 1_000, patienceMs: 20_000 }).find(
      (one) => one.name === check,
    )?.run
    if (!run) throw new Error(`There is no check "${check}".`)
    return run
  }

  describeWith(cloud.kind, `checks and mutants on ${name}`, (server) => {
    beforeAll(() => cloud.prepare(server()))

    describe('checks', () => {
      test.for(Object.keys(checks))('%s', async (check) => find(check, libraryOf(module, server()))())
    })

    describe('mutants', () => {
      test.for(mutations)('the checks catch the mutant: $name', async (mutation) => {
        const { mutant } = await loadMutant<{ mutant: Module }>(mutation, { mutant: file })
        const outcomes = []
        for (const one of [module, mutant]) {
          outcomes.push(await passes(find(mutation.caughtBy, libraryOf(one, server()))))
        }
        expect(outcomes).toEqual([true, false])
      })
    })
  })
}

let prefixes = 0

describeStore<typeof dynamodb, dynamodb.DynamoDBStoreOptions>('DynamoDB', {
  cloud: clouds.DynamoDB,
  file: 'stores/dynamodb/index.ts',
  module: dynamodb,
  checks: dynamodbChecks,
  mutations: dynamodbMutations,
  libraryOf: ({ dynamodbStore }, server) => ({
    server,
    open: ({ url = server.url, beforePut, ...options } = {}) => {
      const client = new DynamoDB(localAws(url))
      client.middlewareStack.add(
        (next) => async (args) => {
          if ('Item' in args.input) await beforePut?.()
          return next(args)
        },
        { step: 'initialize' },
      )
      return dynamodbStore({ client, table: 'leases', ...options })
    },
    remove: (election) => clouds.DynamoDB.remove(server, election),
  }),
})

describeStore<typeof s3, s3.S3StoreOptions>('S3', {
  cloud: clouds.S3,
  file: 'stores/s3/index.ts',
  module: s3,
  checks: s3Checks,
  mutations: s3Mutations,
  libraryOf: ({ s3Store }, server) => {
    const prefix = `mutant-${++prefixes}`
    return {
      server,
      open: ({ url = server.url, ...options } = {}) =>
        s3Store({ client: new S3(localS3(url)), bucket: 'leases', prefix, ...options }),
      remove: (election) => clouds.S3.remove(server, election, `${prefix}/`),
    }
  },
})

describeStore<typeof azureBlob, azureBlob.AzureBlobStoreOptions>('Azure Blob Storage', {
  cloud: clouds['Azure Blob Storage'],
  file: 'stores/azure-blob/index.ts',
  module: azureBlob,
  checks: azureBlobChecks,
  mutations: azureBlobMutations,
  libraryOf: ({ azureBlobStore }, server) => {
    const prefix = `mutant-${++prefixes}`
    return {
      server,
      open: ({ url = server.url, ...options } = {}) =>
        azureBlobStore({ container: localContainer(url, 'leases'), prefix, ...options }),
      remove: (election) => clouds['Azure Blob Storage'].remove(server, election, `${prefix}/`),
    }
  },
})

describeStore<typeof gcs, gcs.GcsStoreOptions>('Google Cloud Storage', {
  cloud: clouds['Google Cloud Storage'],
  file: 'stores/gcs/index.ts',
  module: gcs,
  checks: gcsChecks,
  mutations: gcsMutations,
  libraryOf: ({ gcsStore }, server) => {
    const prefix = `mutant-${++prefixes}`
    return {
      server,
      // The emulator does not limit the rate of writes.
      open: ({ url = server.url, ...options } = {}) =>
        gcsStore({ bucket: gcsBucket, endpoint: url, fetch, prefix, writeIntervalMs: 0.01, ...options }),
      remove: (election) => clouds['Google Cloud Storage'].remove(server, election, `${prefix}/`),
    }
  },
})
