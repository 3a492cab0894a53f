import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { findViolations } from './check-logs.ts'
import { faketimeEnvironment } from './faketime.ts'
import { pathOf } from '../servers/find-program.ts'
import { programs } from '../servers/programs.ts'
import { describeWithPrograms } from '../servers/suite.ts'
import { openFleet } from './open-fleet.ts'

describeWithPrograms([programs.faketime], 'wall clocks that are set while a fleet runs', () => {
  // Long enough that a busy machine does not end the lease.
  const timings = { leaseDurationMs: 5_000, renewIntervalMs: 500 }

  test('setting wall clocks changes neither the leader nor the end of its lease', async () => {
    const clocks = await mkdtemp(join(tmpdir(), 'tenure-clocks-'))
    onTestFinished(() => rm(clocks, { recursive: true }))
    const set = async (identity: string, seconds: string) => writeFile(join(clocks, identity), seconds)
    await Promise.all(['candidate-1', 'candidate-2'].map((identity) => set(identity, '+0')))
    const env = (identity: string) => faketimeEnvironment(pathOf(programs.faketime), join(clocks, identity))
    const fleet = await openFleet({ size: 2, timings, env })

    const leader = await fleet.nextLeader(0)
    const { term } = leader
    const standby = fleet.members.find((member) => member !== leader)
    if (!standby) throw new Error('there is no standby')
    for (const [member, seconds] of [
      [leader, '+3600'],
      [leader, '-3600'],
      [standby, '-3600'],
      [standby, '+3600'],
    ] as const) {
      await set(member.identity, seconds)
      const aheadMs = ((await member.tell<number>('wallMs', undefined)) ?? 0) - Date.now()
      expect(Math.abs(aheadMs - Number(seconds) * 1e3)).toBeLessThan(60_000)
      await leader.until('renewed', 3)
      expect({ leads: leader.term, stands: standby.term }).toEqual({ leads: term, stands: undefined })
    }

    // The leader's clock is now an hour behind, and the standby's an hour ahead.
    const renewed = await leader.until('renewed')
    const paused = leader.pause(1.5 * timings.leaseDurationMs)
    const won = await standby.until('elected')
    expect(won.term).toBe(term + 1)
    expect((won.at - renewed.at) / 1e6).toBeGreaterThan(timings.leaseDurationMs * 0.75)
    expect((won.at - renewed.at) / 1e6).toBeLessThan(timings.leaseDurationMs + 2_000)
    await paused
    await fleet.stop()
    expect(findViolations(await fleet.lives(), fleet.guard)).toEqual([])
  })
})
