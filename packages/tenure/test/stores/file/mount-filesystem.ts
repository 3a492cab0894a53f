import { execFileSync } from 'node:child_process'
import { onTestFinished, type TestContext } from 'vitest'
import { noteUntested } from '../../../../../test/servers/report-missing.ts'
import { temporaryDirectory } from './fixtures.ts'

/** Mounts a file system on a directory until the test ends. Skips the test if mounting is not allowed. */
export async function mount(context: TestContext, type: string, options: string): Promise<string> {
  const directory = await temporaryDirectory()
  try {
    execFileSync('mount', ['-t', type, '-o', `${options},mode=0700`, 'none', directory], { stdio: 'pipe' })
  } catch (error) {
    const reason = `this machine does not allow mounting ${type}: ${String(error)}`
    noteUntested(context.task.name, reason)
    context.skip(reason)
  }
  onTestFinished(() => void execFileSync('umount', ['--lazy', directory]))
  return directory
}
