import { AssertionError, deepEqual, equal, notEqual, ok, rejects } from 'node:assert/strict'
import { setTimeout as delay } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { loadMutant } from '../../../../../test/mutants/mutant.ts'
import { startProxy } from '../../../../../test/servers/proxy.ts'
import { redis, redisWith } from '../../../../../test/servers/redis.ts'
import { start, type RunningServer } from '../../../../../test/servers/server.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'
import { systemClock } from '../../../src/common/clock.ts'
import { storeConformance } from '../../../../testing/src/conformance/index.ts'
import { held } from '../../../../testing/src/conformance/scene.ts'
import {
  absentVersion,
  type AcquireClaim,
  type LeaseRecord,
  type LeaseStore,
  type Outcome,
} from '../../../src/engine/lease-store.ts'
import * as stores from '../../../src/stores/redis/index.ts'
import { redisMutations } from './mutants.ts'

/** The store or a mutant of it, with its own keys. */
interface Library {
  readonly admin: Redis
  readonly port: number
  readonly prefix: string
  readonly key: (kind: 'lease' | 'term') => string
  open(options?: Partial<stores.RedisStoreOptions>): LeaseStore
}

const { signal } = new AbortController()
const call = { signal, timeoutMs: 10_000 }
const short = { signal, timeoutMs: 150 }

function claimOf(change: Partial<AcquireClaim> = {}): AcquireClaim {
  const claim = { election: 'payments', holder: 'ada', attempt: 'first', leaseDurationMs: 15_000, afterTerm: 0 }
  return { ...claim, metadata: {}, ...change }
}

function granted(outcome: Outcome): LeaseRecord {
  ok(outcome.ok)
  return outcome.record
}

function clientAt(port: number): Redis {
  const client = new Redis({ port, lazyConnect: true })
  client.on('error', () => {})
  return client
}

/** Runs `action` with a dedicated server and a client for it. */
async function withServer(
  settings: Record<string, string | number>,
  action: (client: Redis, server: RunningServer) => Promise<void>,
): Promise<void> {
  const server = await start(redisWith(settings))
  const client = clientAt(server.port)
  try {
    await action(client, server)
  } finally {
    client.disconnect()
    await server.stop()
  }
}

/** Checks that supplement the conformance suite. */
const checks: Record<string, (library: Library) => Promise<void>> = {
  async 'acquire is refused when someone has raised the stored term'({ open, admin, key }) {
    const store = open()
    const record = granted(await store.acquire(claimOf(), call))
    const freed = granted(await store.release(held(record), call))
    await admin.set(key('term'), '9 7 15000')
    equal((await store.acquire(claimOf({ attempt: 'next', afterTerm: freed.term }), call)).ok, false)
  },

  async 'an empty key is not overwritten'({ open, admin, key }) {
    await admin.set(key('lease'), '')
    await rejects(open().acquire(claimOf(), call), { code: 'RECORD_INVALID' })
    equal(await admin.get(key('lease')), '')
  },

  async 'no version is reused after Redis was emptied'({ open, admin, key }) {
    const store = open()
    const record = granted(await store.acquire(claimOf(), call))
    await admin.del(key('lease'), key('term'))
    const again = claimOf({ attempt: record.attempt, expiredVersion: absentVersion })
    notEqual(granted(await store.acquire(again, call)).version, record.version)
  },

  async 'no key of the store expires'({ open, admin, key }) {
    granted(await open().acquire(claimOf(), call))
    deepEqual([await admin.ttl(key('lease')), await admin.ttl(key('term'))], [-1, -1])
  },

  async 'a replica is not read'({ open }) {
    await withServer({}, async (client) => {
      const store = open({ client })
      await store.read('payments', call)
      // The server becomes a replica that cannot reach its primary, so its data becomes outdated.
      await client.replicaof('127.0.0.1', 1)
      await rejects(store.read('payments', call), { code: 'BACKEND_UNAVAILABLE' })
    })
  },

  async 'a refusal returns the leader to a candidate that has read nothing'({ open }) {
    const record = granted(await open().acquire(claimOf(), call))
    const refused = await open().acquire(claimOf({ attempt: 'other' }), call)
    deepEqual(refused, { ok: false, record, highestTerm: record.term })
  },

  async 'acquire succeeds after Redis has lost the scripts'({ open, admin }) {
    const store = open()
    for (const election of ['one', 'two']) {
      await admin.script('FLUSH')
      const [answer] = await Promise.allSettled([store.acquire(claimOf({ election }), call)])
      equal(answer.status, 'fulfilled')
    }
  },

  async 'a server that evicts keys is refused'({ open }) {
    await withServer({ 'maxmemory-policy': 'allkeys-lru' }, async (client) => {
      await rejects(open({ client }).acquire(claimOf(), call), { code: 'UNSAFE_SETTINGS' })
    })
  },

  async 'a renewal does not wait behind one that hangs'({ open, port }) {
    const proxy = await startProxy(port)
    try {
      const store = open({ client: clientAt(proxy.port) })
      const record = granted(await store.acquire(claimOf(), call))
      proxy.freezeExisting('to-server')
      await rejects(store.renew(held(record), short), { code: 'TIMEOUT' })
      const [second] = await Promise.allSettled([store.renew(held(record), { signal, timeoutMs: 2_000 })])
      equal(second.status, 'fulfilled')
    } finally {
      proxy.stop()
    }
  },

  async 'a claim that was abandoned while the server was away is never sent'({ open, port, admin, key }) {
    const proxy = await startProxy(port)
    try {
      const store = open({ client: clientAt(proxy.port) })
      await store.read('other', call)
      proxy.refuse()
      proxy.reset()
      await rejects(store.acquire(claimOf(), short))
      await proxy.accept()
      // A client may take this long to reconnect.
      await delay(500)
      equal(await admin.exists(key('lease')), 0)
    } finally {
      proxy.stop()
    }
  },

  async 'nothing is granted before a replica has it'({ open }) {
    await rejects(open({ waitForReplicas: 1 }).acquire(claimOf(), { signal, timeoutMs: 1_500 }), {
      code: 'BACKEND_UNAVAILABLE',
    })
  },

  async 'a grant does not count if the wait for replicas used another connection'({ open, key }) {
    await withServer({}, (primary, { port }) =>
      withServer({ replicaof: `127.0.0.1 ${port}` }, async (_replica, replica) => {
        const proxy = await startProxy(port)
        // This client reconnects by itself, and asks again whether the replica has everything.
        const connect = () => new Redis({ port: proxy.port, retryStrategy: () => 1 }).on('error', () => {})
        const store = open({ client: undefined, connect, waitForReplicas: 1 })
        try {
          const isFollowed = () => store.read('other', { signal, timeoutMs: 1_000 })
          await vi.waitFor(isFollowed, { timeout: 20_000, interval: 50 })
          replica.pause()
          const grant = store.acquire(claimOf(), call)
          grant.catch(() => {})
          await vi.waitUntil(async () => primary.exists(key('lease')), 10_000)
          proxy.reset()
          replica.resume()
          await rejects(grant, { code: 'BACKEND_UNAVAILABLE' })
        } finally {
          replica.resume()
          proxy.stop()
        }
      }),
    )
  },

  async 'a writable replica is refused'({ open }) {
    await withServer({ replicaof: '127.0.0.1 1', 'replica-read-only': 'no' }, async (client) => {
      await rejects(open({ client }).acquire(claimOf(), call), { code: 'BACKEND_UNAVAILABLE' })
    })
  },

  async "the server's settings are checked again periodically"({ open }) {
    await withServer({}, async (client) => {
      let aheadMs = 0
      const store = open({ client, clock: { ...systemClock, monotonicMs: () => performance.now() + aheadMs } })
      await store.read('payments', call)
      await client.config('SET', 'maxmemory-policy', 'allkeys-lru')
      aheadMs = 60_000
      await rejects(store.acquire(claimOf(), call), { code: 'UNSAFE_SETTINGS' })
    })
  },

  async 'an abandoned claim sends nothing more'({ open, port, admin, key }) {
    const proxy = await startProxy(port)
    try {
      const store = open({ client: clientAt(proxy.port) })
      await store.read('other', call)
      await admin.script('FLUSH')
      proxy.set('hold', 'to-client')
      const other = store.read('other', call)
      await rejects(store.acquire(claimOf(), short), { code: 'TIMEOUT' })
      proxy.set('pass')
      await other
      // Anything sent in parallel has been applied by then.
      await delay(200)
      equal(await admin.exists(key('lease')), 0)
    } finally {
      proxy.stop()
    }
  },

  async 'a repeated attempt reuses no version after Redis was emptied'({ open, admin, key }) {
    const store = open()
    const attempt = 'an-attempt-of-the-engine'
    const claim = claimOf({ attempt, writeId: attempt })
    const record = granted(await store.acquire(claim, call))
    await admin.del(key('lease'), key('term'))
    const again = granted(await store.acquire({ ...claim, expiredVersion: absentVersion }, call))
    notEqual(again.version, record.version)
  },

  async 'a watch ignores a message that is outdated'({ open, admin, key }) {
    const store = open()
    const first = granted(await store.acquire(claimOf(), call))
    const old = `${await admin.get(key('lease'))}\n${await admin.get(key('term'))}`
    const renewed = granted(await store.renew(held(first), call))
    const changes = store.watch?.('payments', { signal })[Symbol.asyncIterator]()
    ok(changes)
    try {
      deepEqual((await changes.next()).value, renewed)
      await admin.publish(key('lease'), old)
      // The next message arrives after the old one.
      await delay(50)
      const last = granted(await store.renew(held(renewed), call))
      deepEqual((await changes.next()).value, last)
    } finally {
      await changes.return?.()
    }
  },

  async 'the store reports a refused database instead of using another one'({ open, port }) {
    const client = new Redis({ port, db: 99, lazyConnect: true })
    await rejects(open({ client }).acquire(claimOf(), call), { code: 'BACKEND_UNAVAILABLE' })
  },

  async 'a watch ignores a message from another database'({ open, port }) {
    const [here, there] = [1, 2].map((db) => open({ client: new Redis({ port, db, lazyConnect: true }) }))
    ok(here && there)
    const first = granted(await here.acquire(claimOf(), call))
    const changes = here.watch?.('payments', { signal })[Symbol.asyncIterator]()
    ok(changes)
    try {
      await changes.next()
      const change = changes.next()
      const other = granted(await there.acquire(claimOf({ attempt: 'other' }), call))
      granted(await there.renew(held(other), call))
      // The next message arrives after those.
      await delay(50)
      const renewed = granted(await here.renew(held(first), call))
      deepEqual((await change).value, renewed)
    } finally {
      await changes.return?.()
    }
  },
}

function find(name: string, library: Library): () => Promise<void> {
  const { open, admin, prefix } = library
  const remove = async (election: string) => void (await admin.del(`${prefix}{${encodeURIComponent(election)}}:lease`))
  const cases = storeConformance(() => ({ store: open(), open, remove }), { leaseDurationMs: 1_000 })
  const run = cases.find((one) => one.name === name)?.run
  const check = checks[name]
  if (check) return () => check(library)
  if (!run) throw new Error(`There is no check "${name}".`)
  return run
}

/** Only a failed assertion counts: a mutant that breaks in another way proves nothing about the check. */
async function passes(run: () => Promise<void>): Promise<boolean> {
  try {
    await run()
    return true
  } catch (error) {
    if (error instanceof AssertionError) return false
    throw error
  }
}

describeWith(redis, 'mutants of redisStore', (server) => {
  let admin: Redis
  let prefixes = 0
  const opened: LeaseStore[] = []
  beforeAll(() => {
    admin = clientAt(server().port)
  })
  afterAll(async () => {
    await Promise.all(opened.map(async (store) => store.close?.()))
    admin.disconnect()
  })

  const libraryOf = ({ redisStore }: typeof stores): Library => {
    const prefix = `mutant-${++prefixes}:`
    return {
      admin,
      port: server().port,
      prefix,
      key: (kind) => `${prefix}{payments}:${kind}`,
      open: (options = {}) => {
        const store = redisStore({ client: clientAt(server().port), prefix, ...options })
        opened.push(store)
        return store
      },
    }
  }

  test.for(redisMutations)('the checks catch the mutant: $name', async (mutation) => {
    const mutant = await loadMutant<{ stores: typeof stores }>(mutation, { stores: 'stores/redis/index.ts' })
    // The checks run one after another, because some of them affect the whole server.
    const outcomes = []
    for (const library of [stores, mutant.stores].map(libraryOf)) {
      outcomes.push(await passes(find(mutation.caughtBy, library)))
    }
    expect(outcomes).toEqual([true, false])
  })
})
