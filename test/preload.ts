import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { appendFileSync, existsSync, readFileSync, renameSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { find, pathOf } from './servers/find.ts'
import { programs } from './servers/programs.ts'
import { missingServersVariable } from './servers/report.ts'

/** Why nothing can be preloaded here, or nothing. `what` is shown among what was not tested. */
export function whyNoPreload(what: string): string | undefined {
  const compiler = find(programs.cc)
  const reason = process.platform === 'linux' ? 'missing' in compiler && compiler.missing : 'it is made for Linux'
  if (reason === false) return undefined
  const report = process.env[missingServersVariable]
  if (report) appendFileSync(report, `${what}: ${reason}\n`)
  return reason
}

/** Compiles a source for `LD_PRELOAD`, once for each version of it. */
export function preload(source: string): string {
  const hash = createHash('sha256').update(readFileSync(source)).digest('hex').slice(0, 16)
  const path = join(tmpdir(), `tenure-${basename(source, '.c')}-${hash}.so`)
  if (existsSync(path)) return path
  const building = `${path}.${process.pid}.${performance.now()}`
  execFileSync(pathOf(programs.cc), ['-shared', '-fPIC', '-O1', '-Wall', '-o', building, source, '-ldl', '-lpthread'])
  renameSync(building, path)
  return path
}
