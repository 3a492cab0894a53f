import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { expect, onTestFinished, test, vi } from 'vitest'
import { runFaults, type StoreServer } from './run-faults.ts'
import { preload } from '../preload.ts'
import { programs } from '../servers/programs.ts'
import { redisWith, sentinelFor } from '../servers/redis.ts'
import { start, type RunningServer, type ServerKind } from '../servers/server.ts'
import { describeWithPrograms } from '../servers/suite.ts'

const election = 'jobs'
const record = `tenure:{${election}}:lease`
const commands = '+@connection +eval +evalsha +get +set +persist +mset +publish +subscribe +unsubscribe +info +wait'
const rights = `~tenure:* &tenure:* ${commands}`
const settings = { user: `tenure on >right ${rights}` }

const clockFile = 'clock'

/** A server whose wall clock follows a file next to its data. */
const clocked: ServerKind = {
  ...redisWith(settings),
  prepare: ({ directory }) => writeFileSync(join(directory, clockFile), '0'),
  env: ({ directory }) => ({
    LD_PRELOAD: preload(join(import.meta.dirname, './wall-clock.c')),
    WALL_CLOCK_FILE: join(directory, clockFile),
  }),
}

async function started(kind: ServerKind): Promise<RunningServer> {
  const server = await start(kind)
  onTestFinished(() => server.stop())
  return server
}

function clientOf(options: object): Redis {
  const client = new Redis({ ...options, maxRetriesPerRequest: null })
  client.on('error', () => {})
  onTestFinished(() => client.disconnect())
  return client
}

/** Changes the user's password and closes its connections. */
async function setPassword(admins: readonly Redis[], password: string): Promise<void> {
  await Promise.all(
    admins.map(async (admin) => {
      await admin.call('ACL', 'SETUSER', 'tenure', 'resetpass', `>${password}`)
      await admin.call('CLIENT', 'KILL', 'USER', 'tenure')
    }),
  )
}

const ofData = (admin: Redis) => ({
  removeRecord: () => admin.del(record),
  damageRecord: () => admin.set(record, 'not a record'),
  wipe: () => admin.flushall(),
})

describeWithPrograms([programs.redis, programs.cc], 'a fleet on Redis', () => {
  test(
    'a fleet has one leader at a time, whatever happens to the server, its data, and the network',
    { timeout: 180_000 },
    async () => {
      const server = await started(clocked)
      const admin = clientOf({ port: server.port })
      /** The offsets of the server's clock, in hours ahead of this machine's. */
      const clocks = new Set<number>()
      const serverSeconds = async () => Number((await admin.time())[0])
      const faulty: StoreServer = {
        ...server,
        ...ofData(admin),
        urlAt: (port) => `redis://tenure:right@127.0.0.1:${port}`,
        lockOut: () => setPassword([admin], 'another'),
        letIn: () => setPassword([admin], 'right'),
        async setClock(seconds) {
          writeFileSync(join(server.directory, clockFile), String(seconds))
          clocks.add(Math.round(((await serverSeconds()) - Date.now() / 1e3) / 3_600))
        },
      }
      // A guard must leave a process alone that is paused, stalled or cut off.
      const releaseOnCrash = (identity: string) => identity !== 'candidate-1'
      await runFaults(faulty, { election, releaseOnCrash })
      expect([1, -1]).toEqual(expect.arrayContaining([...clocks]))
    },
  )

  test('a fleet has one leader at a time while Sentinel fails over', { timeout: 180_000 }, async () => {
    const one = await started(redisWith(settings))
    const two = await started(redisWith({ ...settings, replicaof: `127.0.0.1 ${one.port}` }))
    const sentinel = await started(sentinelFor(one.port))
    const admins = [one, two].map(({ port }) => clientOf({ port }))
    const asked = clientOf({ port: sentinel.port })
    const primary = async () => {
      const address = (await asked.call('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', 'mymaster')) as string[]
      return Number(address[1]) === one.port ? 0 : 1
    }
    // A server that has restarted follows the new primary within a second instead of ten. On a busy machine Sentinel
    // would treat a delay of two seconds as a clock change, and do nothing for half a minute.
    const periods = { 'info-period': 200, 'publish-period': 200, 'tilt-trigger': 20_000, 'tilt-period': 1_000 }
    await asked.call('SENTINEL', 'DEBUG', ...Object.entries(periods).flat())
    const isFollowed = async (index: number) => /state=online/.test((await admins[index]?.info('replication')) ?? '')
    const isCalm = async () => {
      const facts = (await asked.call('SENTINEL', 'MASTER', 'mymaster')) as string[]
      const [flags, replicas] = ['flags', 'num-slaves'].map((name) => facts[facts.indexOf(name) + 1])
      return flags === 'master' && replicas === '1'
    }
    // The primary has a replica, and no failover is in progress.
    const isWhole = async () => (await isFollowed(await primary())) && (await isCalm())
    const whole = () => vi.waitUntil(isWhole, { timeout: 30_000, interval: 50 })
    await whole()
    let failovers = 0
    const data = async <T>(action: (of: ReturnType<typeof ofData>) => T) =>
      action(ofData(admins[await primary()] as Redis))
    const faulty: StoreServer = {
      port: sentinel.port,
      async restart(signal) {
        await whole()
        const before = await primary()
        const down = [one, two][before] ?? one
        await down.kill(signal)
        const changed = vi.waitUntil(async () => (await primary()) !== before, { timeout: 10_000, interval: 50 })
        // A failover does not follow every time, because Sentinel must have seen a healthy replica before.
        if (await changed.catch(() => false)) failovers++
        await down.start()
        await whole()
      },
      // Pauses this server, whether it is the primary or a replica at that moment.
      pause: () => one.pause(),
      async resume() {
        one.resume()
        await whole()
      },
      urlAt: (port) => `redis://tenure:right@127.0.0.1:${port}?sentinel=mymaster&waitForReplicas=1`,
      removeRecord: () => data((of) => of.removeRecord()),
      damageRecord: () => data((of) => of.damageRecord()),
      wipe: () => data((of) => of.wipe()),
      lockOut: () => setPassword(admins, 'another'),
      letIn: () => setPassword(admins, 'right'),
    }
    await runFaults(faulty, { election })
    expect(failovers).toBeGreaterThanOrEqual(1)
  })
})
