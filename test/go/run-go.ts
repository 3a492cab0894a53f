import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { root } from '../documents.ts'
import { pathOf } from '../servers/find-program.ts'
import { programs } from '../servers/programs.ts'

/** Runs the go command in a folder and returns its output. Throws if it fails. Default folder: the Go module. */
export async function runGo(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  cwd = join(root, 'go'),
): Promise<string> {
  const options = { cwd, env: { ...process.env, ...env }, maxBuffer: 64 * 2 ** 20 }
  try {
    const { stdout, stderr } = await promisify(execFile)(pathOf(programs.go), args, options)
    // Go reports each module that it downloads for the first time.
    return stdout + stderr.replaceAll(/^go: downloading .*\n/gm, '')
  } catch (error) {
    const { stdout, stderr } = error as { readonly stdout: string; readonly stderr: string }
    throw new Error(`go ${args.join(' ')} failed:\n${(stdout + stderr).slice(-20_000)}`, { cause: error })
  }
}
