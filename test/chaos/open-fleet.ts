import { onTestFinished } from 'vitest'
import { Fleet, type FleetOptions } from './fleet.ts'

export async function openFleet(options: FleetOptions): Promise<Fleet> {
  const fleet = await Fleet.open(options)
  // A seed alone cannot reproduce a run, so the logs of a failed run are kept.
  onTestFinished(({ task }) => fleet.close({ keepFolder: task.result?.state === 'fail' }))
  await fleet.start()
  return fleet
}
