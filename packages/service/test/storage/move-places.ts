import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import { systemClock } from '../../src/common/clock.ts'
import { DirectoryTarget } from '../../src/storage/directory-target.ts'
import { LmdbStorage } from '../../src/storage/lmdb-storage.ts'
import { openServer } from '../../src/storage/open-storage.ts'
import { ServerStorage } from '../../src/storage/server-storage.ts'
import { ServerTarget } from '../../src/storage/server-target.ts'
import type { Place } from './move-checks.ts'

/** A directory that does not exist yet. */
export function directoryPlace(): Place & { readonly directory: string } {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-move-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const directory = join(folder, 'data')
  const open = (more = {}) => LmdbStorage.open({ directory, newId: randomUUID, ...more })
  return {
    name: directory,
    directory,
    serve: () => open(),
    source: (movingTo) => open({ movingTo }),
    target: async () => new DirectoryTarget(directory, directory),
  }
}

/** The place that a URL names. */
export function serverPlace(url: string): Place {
  const server = async () => (await openServer(url, {}, systemClock)).server
  return {
    name: url,
    serve: async () => ServerStorage.open({ server: await server(), newId: randomUUID }),
    source: async (movingTo) => ServerStorage.open({ server: await server(), newId: randomUUID, movingTo }),
    target: async () => new ServerTarget(await server(), url),
  }
}
