import { rejects } from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { Client, type Pool } from 'pg'
import { openPostgresStatements, type PostgresStatements } from 'tenure/internal/postgres'
import { onTestFinished } from 'vitest'
import { systemClock } from '../../src/common/clock.ts'
import type { PostgresStorageServer } from '../../src/storage/postgres-server.ts'
import type { ServerStorage } from '../../src/storage/server-storage.ts'
import type { Fault, StorageWorld } from './conformance.ts'

/** The storage modules, or those of a mutant. */
export interface PostgresStorages {
  readonly PostgresStorageServer: typeof PostgresStorageServer
  readonly ServerStorage: Pick<typeof ServerStorage, 'open'>
}

/** A table name that is not a prefix of any other. */
export const newTable = () => `t_${randomUUID().replaceAll('-', '')}`

/** Opens the data in these tables until the end of the test. `through` may intercept the statements. */
export async function openPostgres(
  storages: PostgresStorages,
  url: string,
  table: string,
  through: (statements: PostgresStatements) => PostgresStatements = (statements) => statements,
  connect = openPostgresStatements,
): Promise<ServerStorage> {
  const statements = await connect(new URL(`${url}?table=${table}`), {}, systemClock)
  const server = new storages.PostgresStorageServer(through(statements))
  const storage = await storages.ServerStorage.open({ server, newId: randomUUID })
  onTestFinished(() => storage.close())
  return storage
}

/** Wraps statements so that writes can be lost, delayed, or left unanswered. A transaction is never torn. */
function failing(statements: PostgresStatements) {
  const late: (() => Promise<unknown>)[] = []
  const network = { fault: undefined as Fault | undefined }
  const through: PostgresStatements = {
    ...statements,
    async run(text, values, call) {
      const fault = /\b(update|insert)\b/.test(text) ? network.fault : undefined
      const send = () => statements.run(text, values, call)
      if (fault === undefined) return send()
      if (fault === 'late') late.push(() => statements.run(text, values, { signal: new AbortController().signal }))
      if (fault === 'unheard') await send()
      throw new Error(`no answer: ${fault}`)
    },
  }
  const deliver = async () => {
    for (const send of late) await send()
  }
  return { through, network, deliver }
}

/** Opens a copy of the data on another server, like a restored dump. */
export async function copyTo(
  storages: PostgresStorages,
  url: string,
  table: string,
  from: Pool,
): Promise<ServerStorage> {
  const copy = new Client({ connectionString: url })
  await copy.connect()
  await openPostgres(storages, url, table).then((made) => made.close())
  await copy.query(`delete from "${table}_head"`)
  for (const part of ['head', 'groups']) {
    const { rows } = await from.query(`select * from "${table}_${part}"`)
    const name = `"${table}_${part}"`
    await copy.query(`insert into ${name} select * from json_populate_recordset(null::${name}, $1)`, [
      JSON.stringify(rows),
    ])
  }
  await copy.end()
  return openPostgres(storages, url, table)
}

/** New data on a server. `other` is a server with another history. */
export async function postgresWorld(
  storages: PostgresStorages,
  url: string,
  admin: Pool,
  other: () => string,
): Promise<Required<StorageWorld>> {
  const table = newTable()
  const storage = await openPostgres(storages, url, table)
  const another = () => openPostgres(storages, url, table)
  return {
    storage,
    another,
    async reopen() {
      await storage.close()
      return another()
    },
    async beginLate() {
      const fresh = newTable()
      // The tables exist, but the late process has found no head in them.
      const first = await openPostgres(storages, url, fresh)
      await first.close()
      await admin.query(`delete from "${fresh}_head"`)
      let deliver = async () => {}
      const late = openPostgres(storages, url, fresh, (statements) => {
        const failed = failing(statements)
        failed.network.fault = 'late'
        deliver = failed.deliver
        // The connection outlives the storage that could not be opened.
        return { ...failed.through, close: async () => onTestFinished(() => statements.close()) }
      })
      await rejects(late)
      return { open: () => openPostgres(storages, url, fresh), deliver: () => deliver() }
    },
    async writes() {
      const { rows } = await admin.query(`select cast(cast(xmin as text) as bigint) as writes from "${table}_head"`)
      return Number(rows[0]?.writes)
    },
    async faulty() {
      let failed: ReturnType<typeof failing> | undefined
      const behind = await openPostgres(storages, url, table, (statements) => (failed = failing(statements)).through)
      return {
        storage: behind,
        suffer: (fault) => failed && (failed.network.fault = fault),
        deliver: async () => failed?.deliver(),
      }
    },
    replaced: () => copyTo(storages, other(), table, admin),
  }
}
