/** A PostgreSQL with a standby, and what becomes of a batch when it fails over. */
import { equal, deepEqual, match, rejects } from 'node:assert/strict'
import type { openPostgresStatements } from 'tenure/stores/postgres'
import { openPair, promote } from '../../../../test/servers/postgres-pair.ts'
import { restoreShared } from '../../src/storage/migrate.ts'
import type { ServerStorage } from '../../src/storage/server-storage.ts'
import { batchAfter, read, write } from './data.ts'
import { newTable, openPostgres, type PostgresStorages } from './postgres-world.ts'

export interface FailoverParts extends PostgresStorages {
  readonly openPostgresStatements: typeof openPostgresStatements
}

async function openScene(parts: FailoverParts) {
  const pair = await openPair()
  const table = newTable()
  const open = (url = pair.primary.url): Promise<ServerStorage> =>
    openPostgres(parts, url, table, undefined, parts.openPostgresStatements)
  return { ...pair, table, open }
}

export const failoverChecks: Readonly<Record<string, (parts: FailoverParts) => Promise<void>>> = {
  async 'a server is refused that has a replica and does not wait for it, or that no longer waits for one'(parts) {
    const { primary, table, open, settle, follow, waitUntilSynchronous } = await openScene(parts)
    const storage = await open()
    const head = await storage.head()
    const standby = await follow()
    await rejects(open(), /cannot be used: it has replicas \(1\) and waits for none of them.*synchronous_standby_names/)
    await rejects(storage.append(head, batchAfter(head, [])), /waits for none of them/)
    await rejects(storage.check(), /waits for none of them/)
    deepEqual(await storage.head(), head)
    await rejects(open(standby.url), /it is a replica/)
    await settle('standby')
    await waitUntilSynchronous()
    await write(storage, { id: 'a', record: { term: 1 } })
    await standby.stop()
    await settle('')
    // A failover to the one that is away would show a head that says that it was waited for.
    await rejects(storage.check(), /it has waited for a replica before/)
    await rejects(open(primary.url), /it has waited for a replica before.*tenure restore/)
    await restoreShared({ store: `${primary.url}?table=${table}`, environment: {} })
    await storage.check()
    equal((await (await open()).head()).restores, 1)
  },
  async 'a failover to a replica that was waited for has lost nothing'(parts) {
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
  async 'a commit whose wait for the replica was cancelled is not known to be done, and a failover may lose it'(parts) {
    const { primary, link, cancelCommit, open, settle, follow, waitUntilSynchronous } = await openScene(parts)
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
    await cancelCommit()
    equal(await outcome, 'unknown')
    // All who read see it.
    deepEqual(await storage.head(), batch.head)
    await primary.kill('SIGKILL')
    await promote(standby)
    const successor = await open(standby.url)
    deepEqual(await successor.head(), head)
    // Settled by a write: given up.
    equal(await successor.append(head, batchAfter(head, [])), 'done')
    equal(await successor.append(head, batch), 'fenced')
    deepEqual(
      (await read(successor)).map(({ record }) => record),
      [{ term: 1 }],
    )
  },
}
