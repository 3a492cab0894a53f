import { beforeAll, describe, expect, test } from 'vitest'
import { azurite, localContainer } from '../../../../../test/servers/azurite.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'
import { storeConformance } from '../../../../testing/src/conformance/index.ts'
import { objectOf } from '../../../src/store-kit/object-names.ts'
import { azureBlobStore } from '../../../src/stores/azure-blob/index.ts'

describeWith(azurite, 'azureBlobStore', (server) => {
  const container = () => localContainer(server().url, 'leases')
  beforeAll(async () => void (await container().create()))

  test('Azurite lets exactly one of 16 racing writers create a blob, and one replace it, at a new ETag', async () => {
    const blob = container().getBlockBlobClient('race')
    const race = (conditions: object) =>
      Promise.all(
        Array.from({ length: 16 }, () =>
          // Equal contents must not give equal versions.
          blob.upload('same', 4, { conditions }).then(
            ({ etag = '' }) => [etag],
            () => [],
          ),
        ),
      )
    const created = (await race({ ifNoneMatch: '*' })).flat()
    expect(created).toHaveLength(1)
    const replaced = (await race({ ifMatch: created[0] })).flat()
    expect(replaced).toHaveLength(1)
    expect(replaced).not.toEqual(created)
  })

  describe('azureBlobStore conforms', () => {
    const open = () => azureBlobStore({ container: container(), prefix: 'conformance' })
    const cases = storeConformance(
      () => ({
        store: open(),
        open,
        remove: async (election) =>
          void (await container()
            .getBlockBlobClient(objectOf('conformance/', election, 'record'))
            .delete()),
      }),
      { leaseDurationMs: 1_000, patienceMs: 20_000 },
    )
    for (const { name, run } of cases) test.concurrent(name, { timeout: 120_000 }, run)
  })
})
