import { test } from 'vitest'
import { fakeGcs, gcsBucket as bucket } from '../../../../../test/servers/fake-gcs.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'
import { storeConformance } from '../../../../testing/src/conformance/index.ts'
import { objectOf } from '../../../src/store-kit/object-names.ts'
import { gcsStore } from '../../../src/stores/gcs/index.ts'

describeWith(fakeGcs, 'gcsStore', (server) => {
  // The emulator does not limit the rate of writes.
  const open = () => gcsStore({ bucket, prefix: 'conformance', endpoint: server().url, fetch, writeIntervalMs: 0.01 })
  const cases = storeConformance(
    () => ({
      store: open(),
      open,
      async remove(election) {
        const object = encodeURIComponent(objectOf('conformance/', election, 'record'))
        await fetch(`${server().url}/storage/v1/b/${bucket}/o/${object}`, { method: 'DELETE' })
      },
    }),
    { leaseDurationMs: 1_000 },
  )
  for (const { name: promise, run } of cases) test.concurrent(promise, run)
})
