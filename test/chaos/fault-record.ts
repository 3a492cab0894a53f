/** Records what happened in a run with faults, for docs/explanation/results.md. */
import { appendFileSync } from 'node:fs'
import { basename } from 'node:path'
import { expect } from 'vitest'
import type { Survey } from './check-logs.ts'

/** The file to which every run appends one line of JSON. Without this variable nothing is recorded. */
const recordVariable = 'TENURE_FAULT_RECORD'

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
export function recordFaultRun(run: FaultRun, serverOf: (suite: string) => string): void {
  const file = process.env[recordVariable]
  if (!file) return
  const { testPath = '', currentTestName = '' } = expect.getState()
  const [suite = ''] = basename(testPath).split('.')
  appendFileSync(file, `${JSON.stringify({ suite, test: currentTestName, server: serverOf(suite), ...run })}\n`)
}
