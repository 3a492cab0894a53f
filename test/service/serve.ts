import { join } from 'node:path'
import { start, type RunningServer, type ServerKind } from '../servers/server.ts'

const command = join(import.meta.dirname, '../../packages/cli/bin/tenure.js')

/** `tenure serve` as it was built. It allows short leases, so that tests need not wait. */
function kindOf(more: readonly string[]): ServerKind {
  return {
    name: 'tenure serve',
    program: { variable: 'TENURE_TEST_NODE', binary: 'node', source: { aptPackage: 'nodejs' } },
    args: ({ directory, port }) => {
      const data = join(directory, 'data')
      return [command, 'serve', '--listen', `127.0.0.1:${port}`, '--data', data, '--min-ttl', '50ms', ...more]
    },
    async probe({ port }) {
      const answer = await fetch(`http://127.0.0.1:${port}/readyz`, { signal: AbortSignal.timeout(1_000) })
      if (!answer.ok) throw new Error(`/readyz answered ${answer.status}`)
    },
    url: (port) => `http://127.0.0.1:${port}`,
    stopSignal: 'SIGTERM',
  }
}

/** Starts the service in its own process on a new data directory, and waits until it is ready. */
export function serve(...more: string[]): Promise<RunningServer> {
  return serveOn(process.execPath, ...more)
}

/** Starts the service with another version of Node. */
export function serveOn(node: string, ...more: string[]): Promise<RunningServer> {
  return start(kindOf(more), node)
}
