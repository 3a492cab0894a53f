import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { vi } from 'vitest'
import { preload } from '../../../../test/preload.ts'
import { temporaryFolder } from '../tenure.ts'

export interface FaultyStart {
  readonly env: Record<string, string>
  /** Turns a fault on. */
  set(fault: 'hang' | 'no-fork'): void
  unset(fault: 'hang' | 'no-fork'): void
  /** Resolves to the process id of the first command that hangs in its start. */
  hanging(): Promise<number>
  /** The process ids of the commands that have been executed so far. */
  executed(): number[]
}

/** Injects faults into the starts of a process's commands. See faulty-start.c. */
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
