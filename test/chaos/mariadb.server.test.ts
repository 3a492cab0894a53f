import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { createConnection, type RowDataPacket } from 'mysql2/promise'
import { onTestFinished, test } from 'vitest'
import { mysqlSchema } from 'tenure/stores/mysql'
import { faketimeEnvironment } from './faketime.ts'
import { runFaults } from './run-faults.ts'
import { pathOf } from '../servers/find-program.ts'
import { mariadb } from '../servers/mariadb.ts'
import { programs } from '../servers/programs.ts'
import { start, type ServerKind } from '../servers/server.ts'
import { describeWithPrograms } from '../servers/suite.ts'

const election = 'jobs'
const clockFile = 'clock'

/** A server whose wall clock follows a file next to its data. */
const clocked: ServerKind = {
  ...mariadb,
  prepare(place) {
    mariadb.prepare?.(place)
    writeFileSync(join(place.directory, clockFile), '+0')
  },
  env: ({ directory }) => faketimeEnvironment(pathOf(programs.faketime), join(directory, clockFile)),
}

async function sql(url: string, ...texts: string[]): Promise<RowDataPacket[]> {
  const connection = await createConnection({ uri: url })
  connection.on('error', () => {})
  try {
    let rows: RowDataPacket[] = []
    for (const text of texts) [rows] = await connection.query<RowDataPacket[]>(text)
    return rows
  } finally {
    await connection.end()
  }
}

describeWithPrograms([programs.mariadb, programs.faketime], 'a fleet on MariaDB', () => {
  const name = 'a fleet has one leader at a time, whatever happens to the server, its data, and the network'
  test(name, { timeout: 180_000 }, async () => {
    const server = await start(clocked)
    onTestFinished(() => server.stop())
    const { url } = server
    await sql(
      url,
      mysqlSchema(),
      `create user worker identified by 'right'`,
      'grant select, insert, update on tenure.tenure_leases to worker',
    )
    const setPassword = (password: string) => sql(url, `alter user worker identified by '${password}'`)
    await runFaults(
      {
        port: server.port,
        pause: () => server.pause(),
        resume: () => server.resume(),
        restart: (signal, options) => server.restart(signal, options),
        urlAt: (port) => `mysql://worker:right@127.0.0.1:${port}/tenure`,
        removeRecord: () => sql(url, `delete from tenure_leases where id like 'lease/%'`),
        damageRecord: () =>
          sql(url, `update tenure_leases set record = 'not a record', version = uuid() where id like 'lease/%'`),
        wipe: () => sql(url, 'truncate tenure_leases'),
        async lockOut() {
          await setPassword('another')
          await sql(url, 'kill user worker')
        },
        letIn: () => setPassword('right'),
        setClock: async (seconds) =>
          writeFileSync(join(server.directory, clockFile), `${seconds < 0 ? '' : '+'}${seconds}`),
      },
      {
        election,
        faults: {
          async 'commits do not wait for the disk'() {
            await sql(url, 'set global innodb_flush_log_at_trx_commit = 2')
            await delay(1_000)
            await sql(url, 'set global innodb_flush_log_at_trx_commit = 1')
          },
          async 'the row is locked'() {
            await sql(url, 'begin', `update tenure_leases set confirmations = 1`, 'select sleep(1.5)', 'rollback')
          },
        },
        expectedErrors: ['UNSAFE_SETTINGS'],
      },
    )
  })
})
