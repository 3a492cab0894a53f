import { programs } from './programs.ts'
import type { ServerKind } from './server.ts'

/** The bucket that the emulator creates at its start. */
export const gcsBucket = 'tenure'

/** An emulator of Google Cloud Storage that evaluates conditions, in memory. */
export const fakeGcs: ServerKind = {
  name: 'fake-gcs-server',
  program: programs.fakeGcs,
  args: ({ port }) => ['--port', String(port), '--bucket', gcsBucket],
  probe: async ({ port }) => {
    const url = `http://127.0.0.1:${port}/storage/v1/b/${gcsBucket}`
    const { ok, status } = await fetch(url, { signal: AbortSignal.timeout(1_000) })
    if (!ok) throw new Error(`fake-gcs-server answered ${status}`)
  },
  url: (port) => `http://127.0.0.1:${port}`,
  stopSignal: 'SIGKILL',
}
