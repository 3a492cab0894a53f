import { execFileSync } from 'node:child_process'
import { accessSync, constants, mkdirSync, readdirSync } from 'node:fs'
import { homedir } from 'node:os'
import { delimiter, join } from 'node:path'

/** How a server's program is had on this machine. */
export interface Program {
  /** Environment variable with the program's path. When it is set, nothing else is looked at. */
  readonly variable: string
  readonly binary: string
  /** Directories outside PATH where a distribution puts it; `*` stands for one directory. */
  readonly directories?: readonly string[]
  readonly aptPackage: string
}

/** A program's path, or why there is none. */
export type Found = { readonly path: string } | { readonly missing: string }

/** Where programs are kept that were built or fetched for the tests. */
export const cacheDirectory = join(process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'tenure')

/** Looks at the environment, PATH, the distribution's directories and the cache; at last installs the program. */
export function find(program: Program): Found {
  const given = process.env[program.variable]
  if (given) return isExecutable(given) ? { path: given } : { missing: `${program.variable}=${given} cannot be run` }
  const present = search(program)
  if (present) return { path: present }
  const failure = install(program)
  const installed = search(program)
  return installed
    ? { path: installed }
    : { missing: `no ${program.binary} on this machine, ${failure ?? 'nor after apt-get'}` }
}

function search({ binary, directories = [] }: Program): string | undefined {
  const path = (process.env['PATH'] ?? '').split(delimiter).filter(Boolean)
  const candidates = [...path, ...directories.flatMap(expand), join(cacheDirectory, 'bin')]
  return candidates.map((directory) => join(directory, binary)).find(isExecutable)
}

function expand(pattern: string): string[] {
  const [before, after] = pattern.split('*')
  if (before === undefined || after === undefined) return [pattern]
  try {
    return readdirSync(before).map((name) => before + name + after)
  } catch {
    return []
  }
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** Says why it could not, or nothing. One test file installs at a time; the others then find it there. */
function install({ binary, aptPackage }: Program): string | undefined {
  if (process.getuid?.() !== 0) return `and only root can install it: apt-get install ${aptPackage}`
  mkdirSync(cacheDirectory, { recursive: true })
  const command = `command -v ${binary} || { apt-get update && apt-get install -y --no-install-recommends ${aptPackage}; }`
  try {
    execFileSync('flock', [join(cacheDirectory, 'install.lock'), 'sh', '-c', command], {
      stdio: 'pipe',
      timeout: 300_000,
      // RUNLEVEL keeps Debian from starting the service that comes with the package.
      env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' },
    })
    return undefined
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error)
    return `and apt-get failed: ${text.trim().split('\n').at(-1)}`
  }
}
