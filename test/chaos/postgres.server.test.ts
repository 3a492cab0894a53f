import { readFileSync, writeFileSync } from 'node:fs'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { join } from 'node:path'
import { once } from 'node:events'
import { Client } from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { postgresSchema } from 'tenure/stores/postgres'
import { faketimeEnvironment } from './faketime.ts'
import { findViolations } from './check-logs.ts'
import { Fleet } from './fleet.ts'
import { runFaults } from './run-faults.ts'
import { pathOf } from '../servers/find-program.ts'
import { asWhole, postgres, standbyOf } from '../servers/postgres.ts'
import { programs } from '../servers/programs.ts'
import { start, type RunningServer, type ServerKind } from '../servers/server.ts'
import { describeWithPrograms } from '../servers/suite.ts'

const election = 'jobs'
const clockFile = 'clock'

/** A server whose wall clock follows a file next to its data. */
const clocked: ServerKind = {
  ...postgres,
  prepare(place) {
    postgres.prepare?.(place)
    writeFileSync(join(place.directory, clockFile), '+0')
  },
  env: ({ directory }) => faketimeEnvironment(pathOf(programs.faketime), join(directory, clockFile)),
}

async function sql(url: string, text: string): Promise<void> {
  const client = new Client({ connectionString: url })
  client.on('error', () => {})
  await client.connect()
  try {
    await client.query(text)
  } finally {
    await client.end()
  }
}

/** Creates a role with a password and only the rights to campaign. */
async function createRole({ url, directory }: RunningServer): Promise<void> {
  const rules = join(directory, 'data/pg_hba.conf')
  writeFileSync(rules, `host all worker 127.0.0.1/32 scram-sha-256\n${readFileSync(rules, 'utf8')}`)
  await sql(url, `create role worker login password 'right'; select pg_reload_conf()`)
  await sql(url, postgresSchema({ role: 'worker' }))
}

describeWithPrograms([programs.postgres, programs.faketime], 'a fleet on PostgreSQL', () => {
  const name = 'a fleet has one leader at a time, whatever happens to the server, its data, and the network'
  test(name, { timeout: 180_000 }, async () => {
    const server = await start(clocked)
    onTestFinished(() => server.stop())
    await createRole(server)
    const { url } = server
    const setPassword = (password: string) => sql(url, `alter role worker password '${password}'`)
    await runFaults(
      {
        ...asWhole(server),
        urlAt: (port) => `postgres://worker:right@127.0.0.1:${port}/postgres`,
        removeRecord: () => sql(url, 'delete from tenure_leases'),
        damageRecord: () => sql(url, `update tenure_leases set record = 'not a record', version = version + 1`),
        wipe: () => sql(url, 'truncate tenure_leases, tenure_leases_terms'),
        async lockOut() {
          await setPassword('another')
          await sql(url, `select pg_terminate_backend(pid) from pg_stat_activity where usename = 'worker'`)
        },
        letIn: () => setPassword('right'),
        setClock: async (seconds) =>
          writeFileSync(join(server.directory, clockFile), `${seconds < 0 ? '' : '+'}${seconds}`),
      },
      { election, faults: { 'the table is truncated': () => sql(url, 'truncate tenure_leases') } },
    )
  })

  test('a fleet loses no term when its synchronous standby is promoted', { timeout: 60_000 }, async () => {
    const primary = await start(postgres)
    onTestFinished(() => primary.stop())
    await createRole(primary)
    const standby = await start(standbyOf(primary))
    onTestFinished(() => standby.stop())
    await sql(primary.url, `alter system set synchronous_standby_names = 'standby'`)
    await sql(primary.url, 'select pg_reload_conf()')
    const front = await startFront(primary.port)
    const timings = { leaseDurationMs: 2_000, renewIntervalMs: 400, renewDeadlineMs: 1_860, retryIntervalMs: 300 }
    const fleet = await Fleet.open({
      size: 3,
      timings,
      election,
      place: () => ({ store: 'url', url: `postgres://worker:right@127.0.0.1:${front.port}/postgres` }),
    })
    onTestFinished(() => fleet.close())
    await fleet.start()
    const { term } = await fleet.nextLeader(0)
    await primary.kill('SIGKILL')
    front.cut()
    await sql(standby.url, 'select pg_promote()')
    front.leadTo(standby.port)
    await fleet.ledAgainMs()
    const before = fleet.leader?.term ?? 0
    await fleet.leader?.kill()
    const { term: last } = await fleet.nextLeader(before)
    await fleet.stop()
    expect(last).toBeGreaterThan(term)
    expect(findViolations(await fleet.lives(), fleet.guard, ['TIMEOUT', 'BACKEND_UNAVAILABLE'])).toEqual([])
  })
})

/** Starts a proxy that can be switched to another server, like the address of a managed database. */
async function startFront(target: number) {
  let port = target
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const upstream = connect(port, '127.0.0.1')
    for (const [one, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      sockets.add(one)
      one.pipe(other)
      one.on('error', () => other.destroy()).on('close', () => other.destroy())
    }
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const cut = () => {
    for (const socket of sockets) socket.destroy()
    sockets.clear()
  }
  onTestFinished(() => {
    server.close()
    cut()
  })
  return { port: (server.address() as AddressInfo).port, cut, leadTo: (next: number) => void (port = next) }
}
