import { onTestFinished } from 'vitest'
import { Fleet, type FleetOptions } from './fleet.ts'

export async function openFleet(options: FleetOptions): Promise<Fleet> {
  const fleet = await Fleet.open(options)
  // What happened cannot be repeated from a seed alone, so the logs of a failure are kept.
  onTestFinished(({ task }) => fleet.close({ keepFolder: task.result?.state === 'fail' }))
  await fleet.start()
  return fleet
}
