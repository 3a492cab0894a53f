/** The servers of the suites with faults. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathOf, type Program } from '../servers/find-program.ts'
import { programs } from '../servers/programs.ts'

const servers = join(import.meta.dirname, '../servers')

/** The server of each suite with its version. */
const versions: Readonly<Record<string, () => string>> = {
  dynamodb: () => `dynalite ${pinned(join(servers, 'programs.ts'), /'dynalite@([\d.]+)'/)}`,
  etcd: () => `etcd ${printed(programs.etcd36)}`,
  gcs: () => `fake-gcs-server ${pinned(join(servers, 'fake-gcs/go.mod'), /fake-gcs-server v([\d.]+)/)}`,
  postgres: () => `PostgreSQL ${printed(programs.postgres)}`,
  redis: () => `Redis ${printed(programs.redis)}`,
  s3: () => `moto ${pinned(join(servers, 'moto/requirements.txt'), /^moto.*==([\d.]+)/m)}`,
}

/** Returns the server of a suite with its version. */
export function serverOf(suite: string): string {
  const version = versions[suite]
  if (!version) throw new Error(`server-versions.ts does not name the server of the suite ${suite}.`)
  return version()
}

/** Returns the version that a program prints. */
function printed(program: Program): string {
  const text = execFileSync(pathOf(program), ['--version'], { encoding: 'utf8', timeout: 60_000 })
  return /\d+\.\d+(?:\.\d+)?/.exec(text)?.[0] ?? 'of unknown version'
}

/** Returns the version that a file pins. */
function pinned(file: string, version: RegExp): string {
  return version.exec(readFileSync(file, 'utf8'))?.[1] ?? 'of unknown version'
}
