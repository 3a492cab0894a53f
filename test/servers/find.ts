import { createHash } from 'node:crypto'
import { accessSync, constants, readdirSync, readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { basename, delimiter, join } from 'node:path'

/** How a server's program is had on this machine. */
export interface Program {
  /** Environment variable with the program's path. When it is set, nothing else is looked at. */
  readonly variable: string
  /** Environment variable with a directory that may hold it. */
  readonly directoryVariable?: string
  readonly binary: string
  /** Directories outside PATH where a distribution puts it; `*` stands for one directory. */
  readonly directories?: readonly string[]
  readonly source: AptPackage | GoModule | PythonPackages | NpmPackages
}

/** A package of Debian. */
export interface AptPackage {
  readonly aptPackage: string
}

/** A folder with a Go program. */
export interface GoModule {
  readonly goModule: string
  /** Folders of this repository that it is built from too. */
  readonly uses?: readonly string[]
  /** About how long its first build takes, on two cores. */
  readonly buildMinutes: number
}

/** A file that names packages of Python, each with its version. The program is taken from these only. */
export interface PythonPackages {
  readonly pythonRequirements: string
  /** Where it is below their folder, if not in `bin`; `*` as in a shell. */
  readonly file?: string
}

/** Packages of npm, each with its version, in a folder of their own. The program is one of their files, and no other. */
export interface NpmPackages {
  readonly npmPackages: readonly string[]
  /** Below `node_modules`. */
  readonly file: string
}

/** A program's path, or why there is none. */
export type Found = { readonly path: string } | { readonly missing: string }

/** Where programs are kept that were built for the tests. */
export const cacheDirectory = join(process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'tenure', 'bin')

/** Looks at the environment, PATH, the distribution's directories and the cache. `npm run servers` fills the latter. */
export function find(program: Program): Found {
  const given = process.env[program.variable]
  if (given) return isUsable(given) ? { path: given } : { missing: `${program.variable}=${given} cannot be used` }
  const path = search(program)
  return path ? { path } : { missing: `no ${program.binary} on this machine; npm run servers tries to get it` }
}

/** The program's path; throws where there is none. */
export function pathOf(program: Program): string {
  const found = find(program)
  if ('missing' in found) throw new Error(found.missing)
  return found.path
}

/** Where the program is built to. The name carries a hash of its sources: what was changed is built anew. */
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

/** Programs that name the same packages share a folder. */
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
