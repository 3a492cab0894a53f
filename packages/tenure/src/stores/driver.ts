import { createRequire } from 'node:module'
import { join } from 'node:path'
import { messageOf } from '@tenure/internal/message'
import { TenureError } from '../errors.ts'

/**
 * Loads a client that users install themselves: the one beside this library or, where the library is installed
 * elsewhere, as a command is, the one of the project in the working directory.
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
 * The same at once, for a function that refuses what is wrong before it returns. `need` says what the package is needed
 * for, `instead` what works without it.
 */
export function loadDriverNow(name: string, need: string, instead: string): object {
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

const where = 'in the folder of your project, with --global where the command "tenure" was installed so'

/** What is to be installed, and where it is found. */
export function missing(needed: string, name: string, cause?: unknown): TenureError {
  return new TenureError('DRIVER_MISSING', `This store needs ${needed}: npm install ${name} (${where})`, { cause })
}

/** Packages of both module systems, alike. */
function unwrapped(loaded: object): object {
  const inner: unknown = Reflect.get(loaded, 'default')
  return typeof inner === 'object' || typeof inner === 'function' ? (inner ?? loaded) : loaded
}

/** Whether it is this package that is not there, and not one that it needs. */
function isMissing(cause: unknown, name: string): boolean {
  const code: unknown = cause instanceof Error && Reflect.get(cause, 'code')
  return /^(ERR_)?MODULE_NOT_FOUND$/.test(String(code)) && messageOf(cause).includes(`'${name}'`)
}

function broken(name: string, cause: unknown): TenureError {
  const text = `The package "${name}" cannot be loaded: ${messageOf(cause)}. Install it again: npm install ${name}`
  return new TenureError('DRIVER_MISSING', text, { cause })
}
