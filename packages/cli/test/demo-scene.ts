import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished } from 'vitest'

/** The temporary directory for the demo. It starts empty, so that anything the demo leaves behind is visible. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'tenure-demo-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  return folder
}

export const pidsIn = (text: string) => [...text.matchAll(/starts as process (\d+)/g)].map(([, pid]) => Number(pid))

export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

export function expectNothingLeft(folder: string, pids: number[]): void {
  expect(pids.length).toBeGreaterThanOrEqual(3)
  expect(pids.filter(isRunning)).toEqual([])
  expect(readdirSync(folder)).toEqual([])
}
