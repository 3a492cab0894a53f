import { execFileSync } from 'node:child_process'
import { appendFileSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { find } from '../../../../test/servers/find.ts'
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

let library: string | undefined

/** The environment of a process whose data file is on a disk that can be told to fail: see faulty-disk.c. */
export function faultyDisk(options: { readonly syncMs?: number; readonly seed?: number } = {}): Record<string, string> {
  const compiler = find(programs.cc)
  if ('missing' in compiler) throw new Error(compiler.missing)
  if (library === undefined) {
    library = join(mkdtempSync(join(tmpdir(), 'tenure-faulty-disk-')), 'faulty-disk.so')
    const source = join(import.meta.dirname, 'faulty-disk.c')
    execFileSync(compiler.path, ['-shared', '-fPIC', '-O1', '-o', library, source, '-ldl', '-lpthread'])
  }
  return {
    LD_PRELOAD: library,
    FAULTY_DISK_FILE: 'elections.mdb',
    ...(options.syncMs !== undefined && { FAULTY_DISK_SYNC_MS: String(options.syncMs) }),
    ...(options.seed !== undefined && { FAULTY_DISK_SEED: String(options.seed) }),
  }
}
