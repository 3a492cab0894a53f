import { fork } from 'node:child_process'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import Database from 'libsql'
import { expect, onTestFinished, test } from 'vitest'
import { Random } from '../../packages/testing/src/simulation/random.ts'
import { findViolations, survey } from './check-logs.ts'
import type { Fleet } from './fleet.ts'
import { deckOf, injectFaults, type Target } from './inject-faults.ts'
import { memberFaults } from './member-faults.ts'
import { openFleet } from './open-fleet.ts'

const timings = { leaseDurationMs: 3_000, renewIntervalMs: 600, renewDeadlineMs: 2_700, retryIntervalMs: 300 }
const { leaseDurationMs } = timings
const place = (_: string, folder: string) => ({ store: 'url' as const, url: `sqlite://${join(folder, 'leases.db')}` })
const pathOf = ({ folder }: Fleet) => join(folder, 'leases.db')
/** The errors that these faults may cause. */
const expectedErrors = ['TIMEOUT', 'BACKEND_UNAVAILABLE', 'RECORD_INVALID', 'NOT_FOUND']

/** Changes the database as an operator would. */
async function change(fleet: Fleet, sql: string): Promise<void> {
  const database = new Database(pathOf(fleet), { timeout: 1_000 })
  try {
    database.exec(sql)
  } finally {
    database.close()
  }
}

/** Starts a process that holds the write lock in an open transaction. */
async function holdLock(fleet: Fleet) {
  const child = fork(join(import.meta.dirname, 'hold-lock.mjs'), [pathOf(fleet)], { execArgv: [] })
  const ended = once(child, 'exit')
  const kill = async () => {
    child.kill('SIGKILL')
    await ended
  }
  onTestFinished(kill)
  await once(child, 'message')
  return { pause: () => child.kill('SIGSTOP'), kill }
}

test(
  'a fleet on one SQLite file has one leader at a time while processes are killed and paused and records are lost',
  { timeout: 120_000 },
  async () => {
    const runMs = Number(process.env['TENURE_CHAOS_SECONDS'] ?? 12) * 1e3
    const seed = Number(process.env['TENURE_CHAOS_SEED'] ?? Math.floor(Math.random() * 2 ** 31))
    const fleet = await openFleet({ size: 5, timings, place, dawdleMs: 500 })
    const { kill, killPaused, longPause, stall, stop, stepDown } = memberFaults(leaseDurationMs)
    const target: Target = { isBusy: false, term: undefined }
    const random = new Random(seed)
    const removeRecord = () => change(fleet, 'DELETE FROM tenure_leases')
    const ofData = {
      'a transaction is killed': async () => (await holdLock(fleet)).kill(),
      async 'a transaction is paused'() {
        const holder = await holdLock(fleet)
        holder.pause()
        await delay(leaseDurationMs / 2)
        await holder.kill()
      },
      'the record is removed': removeRecord,
      async 'the record is damaged'() {
        await change(fleet, `UPDATE tenure_leases SET record = 'not a record', version = 'other'`)
        await delay(leaseDurationMs / 2)
        await removeRecord()
      },
    }
    const ofMembers = { kill, killPaused, longPause, stall, stop, stepDown }
    const [data, members] = await Promise.all([
      injectFaults([deckOf([target], ofData)], { random: random.fork(), runMs, leastFree: 1, everyMs: [1_000, 3_000] }),
      injectFaults([deckOf(fleet.members, ofMembers)], { random, runMs, leastFree: 3, everyMs: [200, 1_000] }),
    ])
    const healedMs = await fleet.ledAgainMs()
    await fleet.stop()
    const lives = await fleet.lives()
    const saw = survey(lives, fleet.guard, fleet.pauses, leaseDurationMs)
    const how = `seed ${seed}, logs in ${fleet.folder}`
    console.log(`faults on SQLite, seed ${seed}:`, Object.fromEntries([...data, ...members]), { ...saw, healedMs })
    expect(findViolations(lives, fleet.guard, expectedErrors), how).toEqual([])
    expect(Math.min(...data.values(), ...members.values()), how).toBeGreaterThan(0)
  },
)

test('while a process is paused in a transaction nobody is elected, and after it is killed somebody is', async () => {
  const fleet = await openFleet({ size: 3, timings, place })
  const { term } = await fleet.nextLeader(0)
  const lost = fleet.leader?.until('lost')
  const holder = await holdLock(fleet)
  holder.pause()
  await lost
  await delay(leaseDurationMs)
  expect(fleet.members.map((member) => member.term)).toEqual([undefined, undefined, undefined])
  await holder.kill()
  expect((await fleet.nextLeader(term)).term).toBe(term + 1)
  await fleet.stop()
  expect(findViolations(await fleet.lives(), fleet.guard, expectedErrors)).toEqual([])
})

test('after all files were deleted while a process led, the next leader has a higher term', async () => {
  const fleet = await openFleet({ size: 3, timings, place })
  const { term } = await fleet.nextLeader(0)
  await Promise.all(fleet.members.filter((member) => member !== fleet.leader).map((member) => member.standsBy()))
  for (const ending of ['', '-wal', '-shm']) rmSync(pathOf(fleet) + ending)
  expect((await fleet.nextLeader(term)).term).toBeGreaterThan(term)
  await fleet.stop()
  expect(findViolations(await fleet.lives(), fleet.guard, expectedErrors)).toEqual([])
})
