import { execFileSync } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, rmSync, statfsSync, unlinkSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'

/** Whether this user can mount file systems. */
export const mayMount = (() => {
  const directory = process.platform === 'linux' ? mountSmall(2) : undefined
  if (directory !== undefined) unmount(directory)
  return directory !== undefined
})()

/** Mounts a file system that can be filled. It is unmounted after the test. */
export function smallDisk({ megabytes = 2 } = {}): { directory: string; fill(): void; free(): void } {
  const directory = mountSmall(megabytes)
  if (directory === undefined) throw new Error('file systems cannot be mounted here')
  onTestFinished(() => unmount(directory))
  const filler = join(directory, 'filler')
  return {
    directory,
    fill() {
      const file = openSync(filler, 'w')
      try {
        while (statfsSync(directory).bfree > 0) writeSync(file, Buffer.alloc(4_096))
      } finally {
        closeSync(file)
      }
    },
    free: () => unlinkSync(filler),
  }
}

function mountSmall(megabytes: number): string | undefined {
  const directory = mkdtempSync(join(tmpdir(), 'tenure-full-'))
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${megabytes}m`, 'tmpfs', directory], { stdio: 'ignore' })
  } catch {
    rmSync(directory, { recursive: true })
    return undefined
  }
  return directory
}

function unmount(directory: string): void {
  execFileSync('umount', ['--lazy', directory])
  rmSync(directory, { recursive: true })
}
