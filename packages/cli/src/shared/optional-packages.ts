import { createRequire } from 'node:module'
import { CommandError, exitCodes } from './arguments/errors.ts'
import { versionOf } from './version.ts'

/** Loads the service, which is not installed with the command, because most machines do not need it. */
export async function loadService(command: string): Promise<typeof import('@tenure/service')> {
  check('@tenure/service', command)
  return import('@tenure/service')
}

/** Loads the functions of the service for its data and its tokens. */
export async function loadServiceTools(command: string): Promise<typeof import('@tenure/service/internal')> {
  check('@tenure/service', command)
  return import('@tenure/service/internal')
}

/** Loads the controller, which is not installed with the command, because most machines do not need it. */
export async function loadMulticluster(command: string): Promise<typeof import('@tenure/multicluster')> {
  check('@tenure/multicluster', command)
  return import('@tenure/multicluster')
}

/** Says what to install if the package is missing or has a different version from the command. Both versions must be equal. */
function check(name: '@tenure/service' | '@tenure/multicluster', command: string): void {
  const version = versionOf()
  const found = installedVersion(name)
  if (found === version) return
  const state = found === undefined ? 'which is not installed' : `version ${version}, but ${found} is installed`
  throw new CommandError(
    `${command} needs the package ${name}, ${state}. Install it where the "tenure" command is installed: npm install ${name}@${version} (add --global if the command was installed with --global).`,
    exitCodes.unavailable,
  )
}

function installedVersion(name: string): string | undefined {
  try {
    const manifest = createRequire(import.meta.url)(`${name}/package.json`) as { readonly version: string }
    return manifest.version
  } catch (error) {
    if (error instanceof Error && Reflect.get(error, 'code') === 'MODULE_NOT_FOUND') return undefined
    throw error
  }
}
