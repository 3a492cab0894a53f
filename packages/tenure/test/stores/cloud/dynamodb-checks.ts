import { deepEqual, equal, ok } from 'node:assert/strict'
import { DynamoDB } from '@aws-sdk/client-dynamodb'
import { localAws } from '../../../../../test/servers/dynalite.ts'
import { startProxy } from '../../../../../test/servers/proxy.ts'
import { held } from '../../../../testing/src/conformance/scene.ts'
import { absentVersion, type AcquireClaim, type LeaseStore, type Outcome } from '../../../src/engine/lease-store.ts'
import type { DynamoDBStoreOptions } from '../../../src/stores/dynamodb/index.ts'
import { call, claimOf, codeOf, granted, withFaultProxy, type Checks } from './cloud-checks.ts'
import { raceChecks } from './race-checks.ts'
import { termChecks } from './term-checks.ts'

export const dynamodbChecks: Checks<DynamoDBStoreOptions> = {
  ...termChecks(/PutItem[^]*"term\//),
  ...raceChecks(/PutItem[^]*"record\//),

  async 'every read is strongly consistent'({ server, open }) {
    const client = new DynamoDB(localAws(server.url))
    const asked: boolean[] = []
    client.middlewareStack.add(
      (next) => async (args) => {
        if (!('Item' in args.input)) asked.push(Reflect.get(args.input, 'ConsistentRead') === true)
        return next(args)
      },
      { step: 'initialize' },
    )
    const store = open({ client })
    await store.read('payments', call)
    await store.list?.({}, call)
    deepEqual(asked, [true, true, true])
  },

  async 'a failed condition is a refusal, not an error'({ open }) {
    const store = open()
    const record = granted(await store.acquire(claimOf(), call))
    granted(await open().renew(held(record), call))
    equal(await codeOf(store.renew(held(record), call)), 'answered')
  },

  async 'a claim that arrives after another grant was deleted is not granted'({ open, remove }) {
    const claim = claimOf()
    const { election } = claim
    let arriving: Promise<Outcome> | undefined
    // The claim has seen that there is no leader, and is delayed in transit.
    let letGo = () => {}
    const reached = new Promise<void>((resolve) => {
      const gate = new Promise<void>((open) => (letGo = open))
      const beforePut = () => {
        resolve()
        return gate
      }
      arriving = open({ beforePut }).acquire(claim, call)
    })
    await reached
    const other = granted(await open().acquire(claimOf({ election }), call))
    await remove(election)
    letGo()
    equal((await arriving)?.ok, false)
    // The late grant is not shown, and its attempt does not find it again.
    const store = open()
    equal(await store.read(election, call), undefined)
    equal((await store.acquire(claim, call)).ok, false)
    const next = claimOf({ election, afterTerm: other.term, expiredVersion: absentVersion })
    equal(granted(await store.acquire(next, call)).term, other.term + 1)
  },

  async 'a grant is not shown before its term is recorded'({ open, remove }) {
    const finds: ((store: LeaseStore, claim: AcquireClaim) => Promise<unknown>)[] = [
      (store, { election }) => store.read(election, call),
      (store, claim) => store.acquire(claim, call),
    ]
    for (const find of finds) {
      let puts = 0
      const broken = open({
        beforePut() {
          if (++puts === 2) throw new Error('the connection broke')
        },
      })
      const claim = claimOf()
      const { election } = claim
      equal(await codeOf(broken.acquire(claim, call)), 'BACKEND_UNAVAILABLE')
      ok(await find(broken, claim))
      await remove(election)
      const refusal = await open().acquire(claimOf({ election }), call)
      deepEqual(refusal, { ok: false, highestTerm: 1, retryAfterMs: claim.leaseDurationMs })
    }
  },

  async 'a process that finds a grant late does not shorten the recorded lease duration'({ open, remove }) {
    let puts = 0
    const broken = open({
      beforePut() {
        if (++puts === 2) throw new Error('the connection broke')
      },
    })
    const claim = claimOf()
    const { election } = claim
    equal(await codeOf(broken.acquire(claim, call)), 'BACKEND_UNAVAILABLE')
    // This process has found the grant, and is delayed before it records the term.
    let letGo = () => {}
    let found: Promise<unknown> | undefined
    await new Promise<void>((resolve) => {
      const gate = new Promise<void>((open) => (letGo = open))
      const beforePut = () => {
        resolve()
        return gate
      }
      found = open({ beforePut }).read(election, call)
    })
    const record = granted(await broken.acquire(claim, call))
    const leaseDurationMs = 2 * claim.leaseDurationMs
    granted(await broken.renew({ ...held(record), leaseDurationMs }, call))
    letGo()
    await found
    await remove(election)
    const refusal = await open().acquire(claimOf({ election }), call)
    deepEqual(refusal, { ok: false, highestTerm: 1, retryAfterMs: leaseDurationMs })
  },

  async 'a write that the client repeats after a lost answer is one grant'(library) {
    await withFaultProxy(library, async (front) => {
      const client = new DynamoDB({ ...localAws(front.url), maxAttempts: 3 })
      const store = library.open({ client })
      const claim = claimOf()
      // Read first, so that the next POST is the write.
      await store.read(claim.election, call)
      front.lose = { method: 'POST', count: 1 }
      const record = granted(await store.acquire(claim, call))
      deepEqual(await library.open().read(claim.election, call), record)
      equal(record.term, 1)
    })
  },

  async 'a call ends at its deadline even if the client ignores it'({ server, open }) {
    const proxy = await startProxy(server.port)
    try {
      const store = open({ url: `http://127.0.0.1:${proxy.port}` })
      const record = granted(await store.acquire(claimOf(), call))
      proxy.freezeExisting('to-server')
      equal(await codeOf(store.renew(held(record), { ...call, timeoutMs: 200 })), 'TIMEOUT')
      // The next call succeeds on another connection.
      equal(await codeOf(store.renew(held(record), call)), 'answered')
    } finally {
      proxy.stop()
    }
  },

  async 'acquire does not overwrite an item of another program'({ server, open }) {
    const client = new DynamoDB(localAws(server.url))
    const { Table: { TableName: table } = {} } = await client.describeTable({ TableName: 'leases' })
    const item = { id: { S: 'record/theirs' }, colour: { S: 'red' } }
    await client.putItem({ TableName: table, Item: item })
    equal(await codeOf(open().acquire(claimOf({ election: 'theirs' }), call)), 'RECORD_INVALID')
    deepEqual((await client.getItem({ TableName: table, Key: { id: item.id } })).Item, item)
    client.destroy()
  },
}
