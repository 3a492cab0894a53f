import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { S3 } from '@aws-sdk/client-s3'
import { localS3 } from '../../../../../test/servers/moto.ts'
import { held } from '../../../../testing/src/conformance/scene.ts'
import type { S3StoreOptions } from '../../../src/stores/s3/index.ts'
import { call, claimOf, codeOf, granted, withFaultProxy, type Checks, type Library } from './cloud-checks.ts'
import { raceChecks } from './race-checks.ts'
import { termChecks } from './term-checks.ts'

/** Checks that on a server that ignores conditions, nobody is elected and no record is written. */
async function refusesWithout(header: string, library: Library<S3StoreOptions>): Promise<void> {
  await withFaultProxy(library, async (front) => {
    front.hidden.add(header)
    const claim = claimOf()
    equal(await codeOf(library.open({ url: front.url }).acquire(claim, call)), 'UNSAFE_SETTINGS')
    equal(await library.open().read(claim.election, call), undefined)
  })
}

export const s3Checks: Checks<S3StoreOptions> = {
  ...termChecks(/^PUT \S+\.term/),
  ...raceChecks(/^PUT \S+\.record/),

  'acquire fails on a server that ignores If-None-Match': (library) => refusesWithout('if-none-match', library),
  'acquire fails on a server that ignores If-Match': (library) => refusesWithout('if-match', library),

  async 'the store probes conditional writes once, and never for reads'(library) {
    await withFaultProxy(library, async (front) => {
      const store = library.open({ url: front.url })
      const claim = claimOf()
      await store.read(claim.election, call)
      equal(front.asked.filter((line) => line.startsWith('PUT')).length, 0)
      const record = granted(await store.acquire(claim, call))
      granted(await store.renew(held(record), call))
      const probes = front.asked.filter((line) => line.startsWith('PUT') && line.includes('.conditions'))
      ok(probes.length === 2 || probes.length === 3)
      granted(await store.renew(held(granted(await store.acquire(claim, call))), call))
      equal(front.asked.filter((line) => line.startsWith('PUT') && line.includes('.conditions')).length, probes.length)
    })
  },

  async 'renewing a deleted object is refused without an error'({ open, remove }) {
    const store = open()
    const claim = claimOf()
    const record = granted(await store.acquire(claim, call))
    await remove(claim.election)
    equal(await codeOf(store.renew(held(record), call)), 'answered')
  },

  async 'a write that the client repeats after a lost answer is one grant'(library) {
    await withFaultProxy(library, async (front) => {
      const store = library.open({ client: new S3({ ...localS3(front.url), maxAttempts: 3 }) })
      const claim = claimOf()
      granted(await store.acquire(claimOf(), call))
      front.lose = { method: 'PUT', count: 1 }
      const record = granted(await store.acquire(claim, call))
      deepEqual(await library.open().read(claim.election, call), record)
      equal(record.term, 1)
    })
  },

  async 'inspect reports rules that delete objects, and versioning that keeps them all'({ server, open }) {
    const client = new S3(localS3(server.url))
    const bucket = `careless-${randomUUID()}`
    await client.createBucket({ Bucket: bucket })
    const inspect = async () => {
      const store = open({ bucket, prefix: 'tenure' }) as ReturnType<
        typeof import('../../../src/stores/s3/index.ts').s3Store
      >
      return (await store.inspect(call)).map(({ risk, text }) => `${risk}: ${text}`)
    }
    deepEqual(await inspect(), [])
    const expiring = (prefix: string) => ({
      ID: prefix,
      Status: 'Enabled' as const,
      Filter: { Prefix: prefix },
      Expiration: { Days: 1 },
    })
    await client.putBucketLifecycleConfiguration({
      Bucket: bucket,
      LifecycleConfiguration: { Rules: [expiring('logs/'), expiring('ten')] },
    })
    await client.putBucketVersioning({ Bucket: bucket, VersioningConfiguration: { Status: 'Enabled' } })
    const [deleted = '', kept = '', ...others] = await inspect()
    match(deleted, /^unsafe: The lifecycle rule "ten" deletes objects/)
    match(kept, /^tight: The bucket keeps every version/)
    deepEqual(others, [])
    client.destroy()
  },
}
