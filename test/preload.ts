import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, renameSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { pathOf } from './servers/find-program.ts'
import { programs } from './servers/programs.ts'

/** Compiles a source file for `LD_PRELOAD` with `programs.cc`, once for each version of the source. */
export function preload(source: string): string {
  const hash = createHash('sha256').update(readFileSync(source)).digest('hex').slice(0, 16)
  const path = join(tmpdir(), `tenure-${basename(source, '.c')}-${hash}.so`)
  if (existsSync(path)) return path
  const building = `${path}.${process.pid}.${performance.now()}`
  execFileSync(pathOf(programs.cc), ['-shared', '-fPIC', '-O1', '-Wall', '-o', building, source, '-ldl', '-lpthread'])
  renameSync(building, path)
  return path
}
