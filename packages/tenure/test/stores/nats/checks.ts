import { deepEqual, equal, notEqual, ok, rejects } from 'node:assert/strict'
import { StorageType } from '@nats-io/jetstream'
import type { NatsClient } from '../../../../../test/servers/nats.ts'
import { held } from '../../../../testing/src/conformance/scene.ts'
import { systemClock, type Clock } from '../../../src/common/clock.ts'
import { keyOf } from '../../../src/stores/nats/keys.ts'
import type * as nats from '../../../src/stores/nats/index.ts'
import { call, claimOf, codeOf, granted } from '../cloud/cloud-checks.ts'

/** The library, or a mutant of it, and a client without any code of the library. */
export interface Scene extends Pick<typeof nats, 'natsStore'> {
  readonly client: NatsClient
}

/** A clock on which time passes faster, so that a check does not wait for long. */
function fastClock(factor: number): Clock {
  return {
    ...systemClock,
    monotonicMs: () => systemClock.monotonicMs() * factor,
    setTimer: (delayMs, callback, options) => systemClock.setTimer(delayMs / factor, callback, options),
  }
}

/** What is special about this store. Each check has a mutant that it must catch. */
export const checks: Readonly<Record<string, (scene: Scene) => Promise<void>>> = {
  async 'a version is not repeated after the bucket was deleted and created again'({ client, natsStore }) {
    const claim = claimOf()
    const versions: string[] = []
    const revisions: unknown[] = []
    for (const attempt of ['first', 'second']) {
      const kv = await client.bucket('recreated')
      const { version } = granted(await natsStore({ kv }).acquire({ ...claim, attempt }, call))
      versions.push(version)
      revisions.push((await kv.get(keyOf(claim.election, 'record')))?.revision)
      await kv.destroy()
    }
    equal(revisions[0], revisions[1])
    notEqual(versions[0], versions[1])
  },

  async 'a watch shows the first change after it was opened'({ client, natsStore }) {
    const store = natsStore({ kv: await client.bucket('watched') })
    const record = granted(await store.acquire(claimOf(), call))
    const leaving = new AbortController()
    const states = store.watch?.(record.election, { signal: leaving.signal })[Symbol.asyncIterator]()
    deepEqual((await states?.next())?.value, record)
    const next = states?.next()
    const renewed = granted(await store.renew(held(record), call))
    const timer = setTimeout(() => leaving.abort(), 3_000)
    const shown = await next
    clearTimeout(timer)
    leaving.abort()
    deepEqual(shown?.value, renewed)
  },

  async 'a watch shows a record that was deleted without a trace'({ client, natsStore }) {
    const kv = await client.bucket('traceless')
    const store = natsStore({ kv, clock: fastClock(20) })
    const record = granted(await natsStore({ kv }).acquire(claimOf({ leaseDurationMs: 20_000 }), call))
    const leaving = new AbortController()
    const states = store.watch?.(record.election, { signal: leaving.signal })[Symbol.asyncIterator]()
    deepEqual((await states?.next())?.value, record)
    const next = states?.next()
    await client.manager.streams.deleteMessage('KV_traceless', Number(record.version.split('-')[0]))
    const timer = setTimeout(() => leaving.abort(), 3_000)
    const shown = await next
    clearTimeout(timer)
    leaving.abort()
    deepEqual(shown, { done: false, value: undefined })
  },

  async 'a failed condition is a refusal, not an error'({ client, natsStore }) {
    const kv = await client.bucket('refusals')
    const store = natsStore({ kv })
    const record = granted(await store.acquire(claimOf(), call))
    granted(await natsStore({ kv }).renew(held(record), call))
    equal(await codeOf(store.renew(held(record), call)), 'answered')
  },

  async 'elections whose names have characters that keys do not allow have their own leases'({ client, natsStore }) {
    const store = natsStore({ kv: await client.bucket('names') })
    for (const election of ['é', 'ß', 'a b', 'a.', '.a', 'a..b', '*', 'a.>', 'x'.repeat(500)]) {
      equal(await codeOf(store.acquire(claimOf({ election }), call)), 'answered')
      equal((await store.read(election, call))?.election, election)
    }
  },

  async 'a bucket in memory is refused'({ client, natsStore }) {
    const kv = await client.bucket('memory', { storage: StorageType.Memory })
    await rejects(natsStore({ kv }).acquire(claimOf(), call), { code: 'UNSAFE_SETTINGS' })
  },

  async 'forget does not remove a grant made after it read the record'({ client, natsStore }) {
    const kv = await client.bucket('forgotten')
    const other = natsStore({ kv })
    const record = granted(await other.acquire(claimOf(), call))
    const released = granted(await other.release(held(record), call))
    let granting: Promise<unknown> | undefined
    const slow = Object.assign(Object.create(kv) as typeof kv, {
      // Another candidate is granted the lease between the read and the removal.
      delete: async (...given: Parameters<typeof kv.delete>) => {
        granting ??= other.acquire(claimOf({ election: record.election, afterTerm: record.term }), call)
        await granting
        return kv.delete(...given)
      },
    })
    const answer = await natsStore({ kv: slow }).forget?.(
      { election: record.election, version: released.version },
      call,
    )
    equal(answer?.ok, false)
    ok((await other.read(record.election, call))?.term === record.term + 1)
  },
}
