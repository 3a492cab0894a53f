import { onTestFinished } from 'vitest'
import { cloudEnvironment, type Cloud } from '../servers/cloud-emulators.ts'
import { start } from '../servers/server.ts'
import { runFaults } from './run-faults.ts'

/** Runs a fleet on an emulator of a cloud store. `keepsData`: whether its data survives a kill of its process. */
export async function runCloudFaults(cloud: Cloud, { keepsData }: { readonly keepsData: boolean }): Promise<void> {
  const server = await start(cloud.kind)
  onTestFinished(() => server.stop())
  await cloud.prepare(server)
  const election = 'jobs'
  const { port, restart } = server
  await runFaults(
    {
      port,
      ...(keepsData && { restart }),
      pause: () => server.pause(),
      resume: () => server.resume(),
      urlAt: cloud.urlAt,
      removeRecord: () => cloud.remove(server, election),
      damageRecord: () => cloud.put(server, election, 'not a record'),
      wipe: () => cloud.wipe(server),
    },
    { election, env: () => cloudEnvironment },
  )
}
