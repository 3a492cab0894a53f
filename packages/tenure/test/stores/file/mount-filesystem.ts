import { execFileSync } from 'node:child_process'
import { onTestFinished, type TestContext } from 'vitest'
import { noteUntested } from '../../../../../test/servers/report-missing.ts'
import { temporaryDirectory } from './fixtures.ts'

/** Mounts a file system on a directory until the test ends. Skips the test if mounting is not allowed. */
export async function mount(context: TestContext, type: string, options: string): Promise<string> {
  const directory = await temporaryDirectory()
  run(context, type, directory, ['mount', '-t', type, '-o', `${options},mode=0700`, 'none', directory])
  return directory
}

/**
 * Mounts FUSE on a directory until the test ends. No process serves this mount: the kernel itself reports its type to a
 * user that does not own it. Skips the test if mounting is not allowed.
 */
export function mountFuse(context: TestContext, directory: string): void {
  const script = 'exec 3<>/dev/fuse && mount -t fuse -o fd=3,rootmode=40000,user_id=65534,group_id=65534 none "$1"'
  run(context, 'FUSE', directory, ['sh', '-c', script, 'sh', directory])
}

/** Shows a directory at another path, read-only, until the test ends. Skips the test if mounting is not allowed. */
export async function mountReadOnly(context: TestContext, source: string): Promise<string> {
  const directory = await temporaryDirectory()
  const script = 'mount --bind "$1" "$2" && mount -o remount,bind,ro "$2"'
  run(context, 'a directory twice', directory, ['sh', '-c', script, 'sh', source, directory])
  return directory
}

function run(context: TestContext, what: string, directory: string, [command = '', ...args]: string[]): void {
  try {
    execFileSync(command, args, { stdio: 'pipe' })
  } catch (error) {
    const reason = `this machine does not allow mounting ${what}: ${String(error)}`
    noteUntested(context.task.name, reason)
    context.skip(reason)
  }
  onTestFinished(() => void execFileSync('umount', ['--lazy', directory]))
}
