import { Elector, type ElectorOptions } from 'tenure'
import { fileStore } from 'tenure/stores/file'
import { onTestFinished } from 'vitest'

/** Starts a candidate on a folder and waits until it leads. */
export async function leadIn(directory: string, identity: string, options: Partial<ElectorOptions> = {}) {
  const store = fileStore({ directory })
  const elector = new Elector({ store, election: 'jobs', identity, leaseDurationMs: 60_000, ...options })
  onTestFinished(async () => {
    await elector.stop()
    await store.close?.()
  })
  elector.start()
  await elector.waitForLeadership()
  return elector
}
