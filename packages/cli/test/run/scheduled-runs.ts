import { expect, vi } from 'vitest'
import type { Line, Scene } from './scene.ts'

export const begun = (on: Scene): Line[] => on.lines().filter(({ what }) => what === 'begin')

export async function expectRuns(on: Scene, count: number): Promise<void> {
  await vi.waitUntil(() => begun(on).length >= count, { timeout: 25_000, interval: 20 })
}

export function expectEachOnce(on: Scene): void {
  const slots = begun(on).map(({ slot }) => slot)
  expect(slots).toEqual([...new Set(slots)].sort())
}
export const quick = ['--exit', '0']
