import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { appendFileSync, existsSync, readFileSync, renameSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { find, pathOf } from '../../../../test/servers/find.ts'
import { programs } from '../../../../test/servers/programs.ts'
import { missingServersVariable } from '../../../../test/servers/report.ts'

/** Why there can be no faulty disk here, or nothing. */
export const noFaultyDisk = ((): string | undefined => {
  const compiler = find(programs.cc)
  const reason = process.platform === 'linux' ? 'missing' in compiler && compiler.missing : 'it is made for Linux'
  if (reason === false) return undefined
  const report = process.env[missingServersVariable]
  if (report) appendFileSync(report, `a disk that fails or loses power: ${reason}\n`)
  return reason
})()

/** The environment of a process whose data file is on a disk that can be told to fail: see faulty-disk.c. */
export function faultyDisk(options: { readonly syncMs?: number; readonly seed?: number } = {}): Record<string, string> {
  return {
    LD_PRELOAD: library(),
    FAULTY_DISK_FILE: 'elections.mdb',
    ...(options.syncMs !== undefined && { FAULTY_DISK_SYNC_MS: String(options.syncMs) }),
    ...(options.seed !== undefined && { FAULTY_DISK_SEED: String(options.seed) }),
  }
}

/** Built once for each version of its source. */
function library(): string {
  const source = join(import.meta.dirname, 'faulty-disk.c')
  const hash = createHash('sha256').update(readFileSync(source)).digest('hex').slice(0, 16)
  const path = join(tmpdir(), `tenure-faulty-disk-${hash}.so`)
  if (existsSync(path)) return path
  const building = `${path}.${process.pid}.${performance.now()}`
  execFileSync(pathOf(programs.cc), ['-shared', '-fPIC', '-O1', '-o', building, source, '-ldl', '-lpthread'])
  renameSync(building, path)
  return path
}
