import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { appendFileSync, existsSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { vi } from 'vitest'
import { find, pathOf } from '../../../../test/servers/find.ts'
import { programs } from '../../../../test/servers/programs.ts'
import { missingServersVariable } from '../../../../test/servers/report.ts'
import { temporaryFolder } from '../tenure.ts'

/** Why no start can be made to fail here, or nothing. */
export const noFaultyStart = ((): string | undefined => {
  const compiler = find(programs.cc)
  const reason = process.platform === 'linux' ? 'missing' in compiler && compiler.missing : 'it is made for Linux'
  if (reason === false) return undefined
  const report = process.env[missingServersVariable]
  if (report) appendFileSync(report, `a start that hangs or fails: ${reason}\n`)
  return reason
})()

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
    env: { LD_PRELOAD: library(), FAULTY_START: folder },
    set: (fault) => writeFileSync(join(folder, fault), ''),
    unset: (fault) => rmSync(join(folder, fault)),
    hanging: () => vi.waitUntil(() => noted('hangs')[0], { timeout: 20_000, interval: 10 }),
    executed: () => noted('executed'),
  }
}

/** Built once for each version of its source. */
function library(): string {
  const source = join(import.meta.dirname, 'faulty-start.c')
  const hash = createHash('sha256').update(readFileSync(source)).digest('hex').slice(0, 16)
  const path = join(tmpdir(), `tenure-faulty-start-${hash}.so`)
  if (existsSync(path)) return path
  const building = `${path}.${process.pid}.${performance.now()}`
  execFileSync(pathOf(programs.cc), ['-shared', '-fPIC', '-O1', '-Wall', '-o', building, source, '-ldl'])
  renameSync(building, path)
  return path
}
