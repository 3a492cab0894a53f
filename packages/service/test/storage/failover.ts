/** A PostgreSQL with a standby, and the outcome of a batch when it fails over. */
import { equal, deepEqual, match, rejects } from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import type { openPostgresStatements, PostgresStatements } from 'tenure/internal/postgres'
import { onTestFinished } from 'vitest'
import { openPair, promote } from '../../../../test/servers/postgres-pair.ts'
import { postgres } from '../../../../test/servers/postgres.ts'
import { start } from '../../../../test/servers/server.ts'
import { systemClock } from '../../src/common/clock.ts'
import { Journal } from '../../src/storage/journal.ts'
import { restoreShared } from '../../src/storage/migrate.ts'
import type { ServerStorage } from '../../src/storage/server-storage.ts'
import { batchAfter, read, write } from './data-directories.ts'
import { copyTo, newTable, openPostgres, type PostgresStorages } from './postgres-storage-fixture.ts'

export interface FailoverParts extends PostgresStorages {
  readonly openPostgresStatements: typeof openPostgresStatements
}

async function openScene(parts: FailoverParts) {
  const pair = await openPair()
  const table = newTable()
  const open = (
    url = pair.primary.url,
    through?: (statements: PostgresStatements) => PostgresStatements,
  ): Promise<ServerStorage> => openPostgres(parts, url, table, through, parts.openPostgresStatements)
  return { ...pair, table, open }
}

const unavailable = { code: 'BACKEND_UNAVAILABLE' }

/**
 * A journal with a batch that was visible but not confirmed. The server failed over and lost the batch just before
 * another write would have confirmed it.
 */
async function openRolledBack(parts: FailoverParts) {
  const { primary, table, link, cancelCommit, open, settle, follow, waitUntilSynchronous } = await openScene(parts)
  let failOver = async (): Promise<PostgresStatements | undefined> => undefined
  let successor: PostgresStatements | undefined
  let last: Parameters<PostgresStatements['run']> | undefined
  const storage = await open(primary.url, (statements) => ({
    ...statements,
    async run(...statement) {
      const [, , over, head] = statement[1]
      const isConfirmation = head !== undefined && head === over
      if (isConfirmation) successor ??= await failOver()
      last = statement
      return (successor ?? statements).run(...statement)
    },
  }))
  const standby = await follow()
  await settle('standby')
  await waitUntilSynchronous()
  await write(storage, { id: 'a', record: { term: 1 } })
  const head = await storage.head()
  const journal = new Journal(storage, head, { newId: randomUUID, recordNow: () => ({ term: 1 }) })
  link.freezeExisting()
  await Promise.all([rejects(journal.write('a', { term: 2 }), unavailable), cancelCommit()])
  const lost = last
  failOver = async () => {
    await primary.kill('SIGKILL')
    await promote(standby)
    const opened = await parts.openPostgresStatements(new URL(`${standby.url}?table=${table}`), {}, systemClock)
    onTestFinished(() => opened.close())
    return opened
  }
  await rejects(journal.write('a', { term: 3 }), unavailable)
  deepEqual(await storage.head(), head)
  equal(journal.fenced, undefined)
  const terms = async () => (await read(storage)).map(({ id, record }) => [id, record.term])
  /** Delivers the batch that was lost. */
  const deliver = async () => lost && successor?.run(...lost)
  return { storage, head, journal, terms, deliver }
}

/**
 * Checks a batch that the primary has committed but the standby does not have, because `interrupt` ends the wait for
 * the standby.
 */
async function checkUnreplicated(
  parts: FailoverParts,
  interrupt: (pair: Awaited<ReturnType<typeof openPair>>) => Promise<void>,
): Promise<void> {
  const scene = await openScene(parts)
  const { primary, link, open, settle, follow, waitUntilSynchronous } = scene
  const storage = await open()
  const standby = await follow()
  await settle('standby')
  await waitUntilSynchronous()
  await write(storage, { id: 'a', record: { term: 1 } })
  const head = await storage.head()
  link.freezeExisting()
  const batch = batchAfter(head, [{ id: 'a', record: { term: 1, ended: 'resigned' } }])
  const outcome = storage.append(head, batch).then(
    (appended) => appended,
    () => 'unknown',
  )
  await interrupt(scene)
  equal(await outcome, 'unknown')
  // Every reader sees the batch.
  deepEqual(await storage.head(), batch.head)
  await primary.kill('SIGKILL')
  await promote(standby)
  const successor = await open(standby.url)
  deepEqual(await successor.head(), head)
  // The write settles the batch, which is abandoned.
  equal(await successor.append(head, batchAfter(head, [])), 'done')
  equal(await successor.append(head, batch), 'fenced')
  deepEqual(
    (await read(successor)).map(({ record }) => record),
    [{ term: 1 }],
  )
}

export const failoverChecks: Readonly<Record<string, (parts: FailoverParts) => Promise<void>>> = {
  async 'a server is refused if it has a replica and does not wait for it, or no longer waits for one'(parts) {
    const { primary, table, open, settle, follow, waitUntilSynchronous } = await openScene(parts)
    const storage = await open()
    const head = await storage.head()
    const standby = await follow()
    await rejects(open(), /cannot be used: it has replicas \(1\) but waits for none of them.*synchronous_standby_names/)
    await rejects(storage.append(head, batchAfter(head, [])), /waits for none of them/)
    await rejects(storage.check(), /waits for none of them/)
    deepEqual(await storage.head(), head)
    await rejects(open(standby.url), /it is a replica/)
    await settle('standby')
    await waitUntilSynchronous()
    await write(storage, { id: 'a', record: { term: 1 } })
    await standby.stop()
    await settle('')
    // A failover to the absent standby would show a head that claims to have been replicated.
    await rejects(storage.check(), /it waited for a replica before/)
    await rejects(open(primary.url), /it waited for a replica before.*tenure restore/)
    await restoreShared({ store: `${primary.url}?table=${table}`, environment: {} })
    await storage.check()
    equal((await (await open()).head()).restores, 1)
  },
  async 'a failover to a synchronous replica loses nothing'(parts) {
    const { primary, open, settle, follow, waitUntilSynchronous } = await openScene(parts)
    const storage = await open()
    await write(storage, { id: 'a', record: { term: 1 } })
    const standby = await follow()
    await settle('standby')
    await waitUntilSynchronous()
    await write(storage, { id: 'a', record: { term: 2 } }, { id: 'b', record: { term: 1 } })
    const head = await storage.head()
    await primary.kill('SIGKILL')
    await promote(standby)
    const successor = await open(standby.url)
    deepEqual(await successor.head(), head)
    const history = await successor.history()
    equal(history.isComplete, true)
    match(history.incarnation, /^\d+\/00000002$/)
    const noted = batchAfter(head, [], { incarnation: history.incarnation })
    equal(await successor.append(head, noted), 'done')
    deepEqual(await successor.history(), history)
    deepEqual(
      (await read(successor)).map(({ id, record }) => [id, record.term]),
      [
        ['a', 2],
        ['b', 1],
      ],
    )
  },
  'a commit whose wait for the replica was canceled has an unknown outcome, and a failover may lose it': (parts) =>
    checkUnreplicated(parts, ({ cancelCommit }) => cancelCommit()),
  'a commit that was released from its wait for the replica has an unknown outcome, and a failover may lose it': (
    parts,
  ) => checkUnreplicated(parts, ({ releaseCommit }) => releaseCommit()),
  async 'a server with another system identifier does not vouch for confirmed writes, even with a synchronous replica'(
    parts,
  ) {
    const { admin, table, open, settle, follow, waitUntilSynchronous } = await openScene(parts)
    const storage = await open()
    await follow()
    await settle('standby')
    await waitUntilSynchronous()
    await write(storage, { id: 'a', record: { term: 1 } })
    const other = await start(postgres)
    onTestFinished(() => other.stop())
    const copy = await copyTo(parts, other.url, table, admin)
    deepEqual(await copy.head(), await storage.head())
    equal((await storage.history()).isComplete, true)
    equal((await copy.history()).isComplete, false)
  },
  async 'a batch that a failover loses just before it is confirmed fences nobody and is abandoned'(parts) {
    const { storage, head, journal, terms, deliver } = await openRolledBack(parts)
    const written = await journal.write('b', { term: 1 })
    equal(written.head.seq, head.seq + 2)
    await deliver()
    deepEqual(await storage.head(), written.head)
    deepEqual(await terms(), [
      ['a', 1],
      ['b', 1],
    ])
  },
  async 'a batch that a failover lost and that arrives late is replaced before anything else is written'(parts) {
    const { head, journal, terms, deliver } = await openRolledBack(parts)
    await deliver()
    deepEqual(await terms(), [['a', 2]])
    const written = await journal.write('b', { term: 1 })
    // The batch, its replacement, and this one. The empty batch that was to take its place was not written.
    equal(written.head.seq, head.seq + 3)
    deepEqual(await terms(), [
      ['a', 1],
      ['b', 1],
    ])
  },
}
