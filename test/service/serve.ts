import { join } from 'node:path'
import { start, type RunningServer, type ServerKind } from '../servers/server.ts'

const script = join(import.meta.dirname, '../../packages/service/test/serve.mjs')

/** The election service, as it was built, with leases of 50 ms and more. */
const service: ServerKind = {
  name: 'the election service',
  program: { variable: 'TENURE_TEST_NODE', binary: 'node', source: { aptPackage: 'nodejs' } },
  args: ({ directory, port }) => [script, join(directory, 'data'), String(port)],
  async probe({ port }) {
    const answer = await fetch(`http://127.0.0.1:${port}/readyz`, { signal: AbortSignal.timeout(1_000) })
    if (!answer.ok) throw new Error(`/readyz answers ${answer.status}`)
  },
  url: (port) => `http://127.0.0.1:${port}`,
  stopSignal: 'SIGTERM',
}

/** Starts the service in a process of its own on a fresh data directory, and waits until it is ready. */
export function serve(): Promise<RunningServer> {
  return start(service, process.execPath)
}
