import { join } from 'node:path'
import { localAws } from './dynalite.ts'
import { programs } from './programs.ts'
import type { ServerKind } from './server.ts'

/** An emulator of S3 that evaluates conditions, in memory. */
export const moto: ServerKind = {
  name: 'moto',
  program: programs.moto,
  args: ({ port }) => [join(import.meta.dirname, 'moto/server.py'), String(port)],
  probe: ({ port }) => fetch(`http://127.0.0.1:${port}/moto-api/`, { signal: AbortSignal.timeout(1_000) }),
  url: (port) => `http://127.0.0.1:${port}`,
  stopSignal: 'SIGKILL',
}

/** Returns the options of an S3 client for an emulator at this URL. */
export function localS3(url: string) {
  return { ...localAws(url), forcePathStyle: true }
}
