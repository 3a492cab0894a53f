import { createHash } from 'node:crypto'
import { accessSync, constants, readdirSync, readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { basename, delimiter, join } from 'node:path'

/** A program that tests need, and how to install it. */
export interface Program {
  /** The environment variable with the program's path. If it is set, no other place is searched. */
  readonly variable: string
  /** The environment variable with a directory that may contain the program. */
  readonly directoryVariable?: string
  readonly binary: string
  /** Directories outside PATH where a distribution installs the program. `*` matches one directory. */
  readonly directories?: readonly string[]
  readonly source: AptPackage | GoModule | PythonPackages | NpmPackages
}

/** A Debian package. */
export interface AptPackage {
  readonly aptPackage: string
  /** The suite that has the package, such as `bookworm-backports`. Default: the suites of this machine. */
  readonly suite?: string
}

/** A folder with a Go program. */
export interface GoModule {
  readonly goModule: string
  /** Further folders of this repository that the program is built from. */
  readonly uses?: readonly string[]
  /** Further flags for the linker. */
  readonly linkerFlags?: string
  /** The approximate duration of its first build, in minutes on two cores. */
  readonly buildMinutes: number
}

/** A requirements file with pinned Python packages. The program must come from these. */
export interface PythonPackages {
  readonly pythonRequirements: string
  /** The path of the program in the folder of the packages, if it is not in `bin`. `*` matches as in a shell. */
  readonly file?: string
}

/** Pinned npm packages in their own folder. The program must be one of their files. */
export interface NpmPackages {
  readonly npmPackages: readonly string[]
  /** The path below `node_modules`. */
  readonly file: string
}

/** The path of a program, or the reason why it is missing. */
export type Found = { readonly path: string } | { readonly missing: string }

/** The folder of programs that were built for the tests. */
export const cacheDirectory = join(process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'tenure', 'bin')

/** Searches the environment, PATH, the distribution's directories, and the cache. `npm run servers` fills the cache. */
export function find(program: Program): Found {
  const given = process.env[program.variable]
  if (given)
    return isUsable(given) ? { path: given } : { missing: `${program.variable}=${given} is not an executable file` }
  const path = search(program)
  return path ? { path } : { missing: `${program.binary} is not installed; npm run servers tries to install it` }
}

/** Returns the program's path. Throws if it is missing. */
export function pathOf(program: Program): string {
  const found = find(program)
  if ('missing' in found) throw new Error(found.missing)
  return found.path
}

/** Where the program is built. The name contains a hash of its sources, so that changed sources are built again. */
export function cachePath({ binary, source }: Program): string {
  if ('aptPackage' in source) return join(cacheDirectory, binary)
  if ('npmPackages' in source) return join(npmFolder(source), 'node_modules', source.file)
  const files =
    'goModule' in source
      ? [source.goModule, ...(source.uses ?? [])].flatMap((folder) =>
          readdirSync(folder)
            .filter((file) => !file.endsWith('_test.go'))
            .sort()
            .map((file) => join(folder, file)),
        )
      : [source.pythonRequirements]
  const hash = createHash('sha256')
  for (const file of files)
    hash
      .update(`${basename(file)}\0`)
      .update(readFileSync(file))
      .update('\0')
  return join(cacheDirectory, `${binary}-${hash.digest('hex').slice(0, 16)}`)
}

/** Programs with the same packages share a folder. */
export function npmFolder({ npmPackages }: NpmPackages): string {
  const hash = createHash('sha256').update(npmPackages.join(' ')).digest('hex').slice(0, 16)
  return join(cacheDirectory, '..', 'npm', hash)
}

function search(program: Program): string | undefined {
  const { binary, directories = [], directoryVariable, source } = program
  if ('pythonRequirements' in source || 'npmPackages' in source) return [cachePath(program)].find(isUsable)
  const path = (process.env['PATH'] ?? '').split(delimiter)
  const given = directoryVariable ? process.env[directoryVariable] : undefined
  const candidates = [given ?? '', ...path, ...directories.flatMap(expand)].filter(Boolean)
  return [...candidates.map((directory) => join(directory, binary)), cachePath(program)].find(isUsable)
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

function isUsable(path: string): boolean {
  const isLibrary = basename(path).includes('.so')
  try {
    accessSync(path, isLibrary ? constants.R_OK : constants.X_OK)
    return true
  } catch {
    return false
  }
}
