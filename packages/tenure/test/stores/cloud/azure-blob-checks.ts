import { deepEqual, equal, match } from 'node:assert/strict'
import { StorageSharedKeyCredential, ContainerClient } from '@azure/storage-blob'
import { azuriteAccount, localContainer } from '../../../../../test/servers/azurite.ts'
import { held } from '../../../../testing/src/conformance/scene.ts'
import type { AzureBlobStoreOptions } from '../../../src/stores/azure-blob/index.ts'
import { call, claimOf, codeOf, granted, withFaultProxy, type Checks } from './cloud-checks.ts'
import { raceChecks } from './race-checks.ts'
import { termChecks } from './term-checks.ts'

export const azureBlobChecks: Checks<AzureBlobStoreOptions> = {
  ...termChecks(/^PUT \S+\.term/),
  ...raceChecks(/^PUT \S+\.record/),

  async 'renewing a deleted blob is refused without an error'({ open, remove }) {
    const store = open()
    const record = granted(await store.acquire(claimOf(), call))
    await remove(record.election)
    equal(await codeOf(store.renew(held(record), call)), 'answered')
  },

  async 'a blob that another program has leased is an error, not a refusal'({ server, open }) {
    const store = open({ prefix: 'leased' })
    const record = granted(await store.acquire(claimOf(), call))
    const blob = localContainer(server.url, 'leases').getBlockBlobClient(`leased/${record.election}.record`)
    const lease = blob.getBlobLeaseClient()
    await lease.acquireLease(15)
    equal(await codeOf(store.renew(held(record), call)), 'BACKEND_UNAVAILABLE')
    await lease.releaseLease()
    granted(await store.renew(held(record), call))
  },

  async 'acquire finds its own grant after its answer was lost'(library) {
    await withFaultProxy(library, async (front) => {
      const store = library.open({ url: front.url })
      const claim = claimOf()
      front.lose = { method: 'PUT', count: 1 }
      equal(await codeOf(store.acquire(claim, call)), 'BACKEND_UNAVAILABLE')
      const record = granted(await store.acquire(claim, call))
      deepEqual(await library.open().read(claim.election, call), record)
      equal(record.term, 1)
    })
  },

  async 'a write that the client repeats after a lost answer is one grant'(library) {
    await withFaultProxy(library, async (front) => {
      const retryOptions = { maxTries: 3, retryDelayInMs: 10 }
      const store = library.open({ container: localContainer(front.url, 'leases', { retryOptions }) })
      const claim = claimOf()
      front.lose = { method: 'PUT', count: 1 }
      equal(await codeOf(store.acquire(claim, call)), 'answered')
      equal(front.asked.filter((line) => /^PUT \S+\.record/.test(line)).length, 2)
      const { attempt, term } = (await library.open().read(claim.election, call)) ?? {}
      deepEqual({ attempt, term }, { attempt: claim.attempt, term: 1 })
    })
  },

  async 'rate limiting, server errors and denied access are reported with their codes'(library) {
    await withFaultProxy(library, async (front) => {
      const store = library.open({ url: front.url })
      for (const [status, code] of [
        [429, 'RATE_LIMITED'],
        [503, 'BACKEND_UNAVAILABLE'],
        [403, 'UNAUTHORIZED'],
      ] as const) {
        front.refuse = status
        equal(await codeOf(store.read('payments', call)), code)
      }
    })
  },

  async 'a missing container and a wrong key are reported'({ server, open }) {
    const missing = open({ container: localContainer(server.url, 'no-such-container') })
    const failureOf = (answer: Promise<unknown>) => answer.catch((thrown: unknown) => thrown)
    const lost = await failureOf(missing.acquire(claimOf(), call))
    match(String(lost), /The container does not exist/)
    const key = Buffer.from('another key').toString('base64')
    const credential = new StorageSharedKeyCredential(azuriteAccount, key)
    const container = new ContainerClient(`${server.url}/${azuriteAccount}/leases`, credential)
    const denied = await failureOf(open({ container }).acquire(claimOf(), call))
    equal(Reflect.get(Object(denied), 'code'), 'UNAUTHORIZED')
    equal(String(denied).includes(key), false)
  },

  async 'forget does not remove a record that was granted after it was read'({ server, open }) {
    const prefix = 'forgotten'
    const other = open({ prefix })
    const record = granted(await other.acquire(claimOf(), call))
    const freed = granted(await other.release(held(record), call))
    const { election, term: afterTerm, version } = freed
    const next = claimOf({ election, afterTerm })
    const container = grantBeforeDelete(localContainer(server.url, 'leases'), () => other.acquire(next, call))
    const store = open({ prefix, container })
    const answer = await store.forget?.({ election, version }, call)
    equal(answer?.ok, false)
    equal((await other.read(election, call))?.attempt, next.attempt)
  },

  async 'inspect finds nothing wrong with a usual container'({ open }) {
    const store = open() as ReturnType<typeof import('../../../src/stores/azure-blob/index.ts').azureBlobStore>
    deepEqual(await store.inspect(call), [])
  },

  async 'acquire does not overwrite a blob of another program'({ server, open }) {
    const store = open({ prefix: 'foreign' })
    const { election } = claimOf()
    const blob = localContainer(server.url, 'leases').getBlockBlobClient(`foreign/${election}.record`)
    await blob.upload('not a record', 12)
    equal(await codeOf(store.acquire(claimOf({ election }), call)), 'RECORD_INVALID')
    equal((await blob.downloadToBuffer()).toString(), 'not a record')
  },
}

/** A container in which another process is granted the lease between the read and the delete of a record. */
function grantBeforeDelete(container: ContainerClient, grant: () => Promise<unknown>): ContainerClient {
  const getBlockBlobClient = container.getBlockBlobClient.bind(container)
  container.getBlockBlobClient = (name) => {
    const blob = getBlockBlobClient(name)
    const remove = blob.delete.bind(blob)
    blob.delete = async (options) => {
      await grant()
      return remove(options)
    }
    return blob
  }
  return container
}
