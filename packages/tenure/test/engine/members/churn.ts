import { deepEqual, equal } from 'node:assert/strict'
import type { Random } from '../../../../testing/src/simulation/random.ts'
import { leaseMs, type PresentFleet, type PresentProcess } from './present-fleet.ts'

const size = 6
const rounds = 60

/**
 * Disturbs a fleet at random. Then all faults end, and every process must have a seat again, if there are enough. Each
 * advance of the fleet checks that no two processes hold the same seat.
 */
export async function churn(fleet: PresentFleet, random: Random): Promise<void> {
  const start = () => {
    fleet.start().latencyMs = () => random.magnitude(1, 2_000)
  }
  for (let index = 0; index < size; index += 1) start()
  const stalled = new Set<PresentProcess>()
  for (let round = 0; round < rounds; round += 1) {
    const alive = fleet.processes.filter(({ hasCrashed }) => !hasCrashed)
    const process = random.pick(alive)
    switch (random.pick(['crash', 'stall', 'cut', 'heal', 'stop', 'none'] as const)) {
      case 'crash':
        if (stalled.has(process)) break
        fleet.crash(process)
        start()
        break
      case 'stall':
        if (!stalled.has(process)) process.clock.stall()
        stalled.add(process)
        break
      case 'cut':
        process.isCut = true
        break
      case 'heal':
        for (const one of alive) heal(one, stalled)
        break
      case 'stop':
        if (stalled.has(process) || process.isCut) break
        await fleet.stop(process)
        start()
        break
      case 'none':
        break
    }
    await fleet.advance(random.between(500, leaseMs), 500)
  }
  const alive = fleet.processes.filter(({ hasCrashed }) => !hasCrashed)
  for (const process of alive) {
    heal(process, stalled)
    process.latencyMs = () => 1
  }
  await fleet.advance(leaseMs * 5)
  const seats = fleet.seats()
  equal(Object.keys(seats).length, 4, 'all seats are held again')
  const listed = (await fleet.members(leaseMs)).map(({ identity, seat }) => [identity, seat] as const)
  deepEqual(Object.fromEntries(listed), seats)
  equal(alive.filter(({ elector }) => elector.isLeader()).length, 1, 'the election has one leader')
  await fleet.stopAll()
}

function heal(process: PresentProcess, stalled: Set<PresentProcess>): void {
  process.isCut = false
  if (stalled.delete(process)) process.clock.resume()
}
