import { createRequire } from 'node:module'
import { join } from 'node:path'
import { messageOf } from '@tenure/internal/message'
import { TenureError } from '../common/errors.ts'

/**
 * Loads a client package that users install themselves. Looks next to this library first, then in the working
 * directory's project, because the library may be installed globally as a command.
 */
export async function loadDriver(name: string): Promise<object> {
  try {
    return unwrapped(await import(name))
  } catch (cause) {
    if (!isMissing(cause, name)) throw broken(name, cause)
  }
  try {
    return unwrapped(createRequire(join(process.cwd(), 'package.json'))(name))
  } catch (cause) {
    if (!isMissing(cause, name)) throw broken(name, cause)
    throw missing(`the package "${name}"`, name, cause)
  }
}

/**
 * Synchronous {@link loadDriver}, for functions that must report errors before they return. `need` says why the package
 * is needed, and `instead` says what works without it.
 */
export function loadDriverSync(name: string, need: string, instead: string): object {
  let cause: unknown
  for (const place of [import.meta.url, join(process.cwd(), 'package.json')]) {
    try {
      return createRequire(place)(name)
    } catch (error) {
      if (!isMissing(error, name)) throw broken(name, error)
      cause = error
    }
  }
  throw new TenureError('DRIVER_MISSING', `${need}: npm install ${name} (${where}). ${instead}`, { cause })
}

const where = 'in the directory of your project, or with --global if the "tenure" command was installed with --global'

/** The error for a package that is not installed. It says what to install, and where. */
export function missing(needed: string, name: string, cause?: unknown): TenureError {
  return new TenureError('DRIVER_MISSING', `This store needs ${needed}: npm install ${name} (${where})`, { cause })
}

/** Returns a package's exports for both ES modules and CommonJS. */
function unwrapped(loaded: object): object {
  const inner: unknown = Reflect.get(loaded, 'default')
  return typeof inner === 'object' || typeof inner === 'function' ? (inner ?? loaded) : loaded
}

/** True if this package itself is missing. False if a package that it depends on is missing. */
function isMissing(cause: unknown, name: string): boolean {
  const code: unknown = cause instanceof Error && Reflect.get(cause, 'code')
  return /^(ERR_)?MODULE_NOT_FOUND$/.test(String(code)) && messageOf(cause).includes(`'${name}'`)
}

function broken(name: string, cause: unknown): TenureError {
  const text = `The package "${name}" cannot be loaded: ${messageOf(cause)}. Reinstall it: npm install ${name}`
  return new TenureError('DRIVER_MISSING', text, { cause })
}
