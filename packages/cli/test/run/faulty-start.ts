import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { vi } from 'vitest'
import { preload } from '../../../../test/preload.ts'
import { temporaryFolder } from '../tenure.ts'

export interface FaultyStart {
  readonly env: Record<string, string>
  /** From now on. */
  set(fault: 'hang' | 'no-fork'): void
  unset(fault: 'hang' | 'no-fork'): void
  /** The first command that hangs in its start. */
  hanging(): Promise<number>
  /** Commands that were executed so far. */
  executed(): number[]
}

/** For a process that starts commands: see faulty-start.c. */
export function faultyStart(): FaultyStart {
  const folder = temporaryFolder()
  const noted = (name: string) => {
    const path = join(folder, name)
    return existsSync(path) ? readFileSync(path, 'utf8').split('\n').slice(0, -1).map(Number) : []
  }
  return {
    env: { LD_PRELOAD: preload(join(import.meta.dirname, 'faulty-start.c')), FAULTY_START: folder },
    set: (fault) => writeFileSync(join(folder, fault), ''),
    unset: (fault) => rmSync(join(folder, fault)),
    hanging: () => vi.waitUntil(() => noted('hangs')[0], { timeout: 20_000, interval: 10 }),
    executed: () => noted('executed'),
  }
}
