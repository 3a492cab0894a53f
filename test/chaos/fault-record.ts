/** Records what happened in a run with faults, for docs/explanation/results.md. */
import { execFileSync } from 'node:child_process'
import { appendFileSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { expect } from 'vitest'
import { pathOf, type Program } from '../servers/find-program.ts'
import { programs } from '../servers/programs.ts'
import type { Survey } from './check-logs.ts'

/** The file to which every run appends one line of JSON. Without this variable nothing is recorded. */
const recordVariable = 'TENURE_FAULT_RECORD'

const servers = join(import.meta.dirname, '../servers')

/** The server of each suite with its version. */
const serverOf: Readonly<Record<string, () => string>> = {
  dynamodb: () => `dynalite ${pinned(join(servers, 'programs.ts'), /'dynalite@([\d.]+)'/)}`,
  etcd: () => `etcd ${printed(programs.etcd36)}`,
  'file-store': () => `files on ${process.platform}`,
  gcs: () => `fake-gcs-server ${pinned(join(servers, 'fake-gcs/go.mod'), /fake-gcs-server v([\d.]+)/)}`,
  postgres: () => `PostgreSQL ${printed(programs.postgres)}`,
  redis: () => `Redis ${printed(programs.redis)}`,
  s3: () => `moto ${pinned(join(servers, 'moto/requirements.txt'), /^moto.*==([\d.]+)/m)}`,
}

export interface FaultRun extends Survey {
  readonly seed: number
  /** How long faults occurred at random. */
  readonly seconds: number
  /** The number of processes that were started. */
  readonly processes: number
  /** How often each fault was injected, by its name. */
  readonly faults: Readonly<Record<string, number>>
  /** What contradicts the guarantees. */
  readonly violations: readonly string[]
}

/** Call it before the checks, so that a run that fails is recorded as well. */
export function recordFaultRun(run: FaultRun): void {
  const file = process.env[recordVariable]
  if (!file) return
  const { testPath = '', currentTestName = '' } = expect.getState()
  const [suite = ''] = basename(testPath).split('.')
  const server = serverOf[suite]
  if (!server) throw new Error(`fault-record.ts does not name the server of the suite ${suite}.`)
  appendFileSync(file, `${JSON.stringify({ suite, test: currentTestName, server: server(), ...run })}\n`)
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
