import { join } from 'node:path'
import { programs } from './programs.ts'
import type { ServerKind } from './server.ts'

/** A libSQL server, with its data on disk. */
export const sqld: ServerKind = {
  name: 'sqld',
  program: programs.sqld,
  args: ({ directory, port }) => [
    '--no-welcome',
    '--db-path',
    join(directory, 'data'),
    '--http-listen-addr',
    `127.0.0.1:${port}`,
  ],
  async probe({ port }) {
    const { ok } = await fetch(`http://127.0.0.1:${port}/health`, { signal: AbortSignal.timeout(1_000) })
    if (!ok) throw new Error('the server is not ready')
  },
  url: (port) => `http://127.0.0.1:${port}`,
  stopSignal: 'SIGTERM',
}
