import { spawnSync } from 'node:child_process'
import { chmodSync, cpSync, readFileSync, realpathSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { temporaryFolder } from '../tenure.ts'

/** A user that owns nothing on a typical system. */
export const otherUser = { uid: 64_123, gid: 64_123 } as const

/** Why nothing can be run as another user. Undefined if it can. */
export const noOtherUser = (() => {
  if (process.getuid?.() !== 0) return 'only root can act as another user'
  const { status } = spawnSync(process.execPath, ['--version'], otherUser)
  return status === 0 ? undefined : 'other users cannot run this Node.js'
})()

/** Copies the command to a place where every user can read it, because a clone may be in a private home directory. */
export function programForAll(): string {
  const folder = temporaryFolder()
  chmodSync(folder, 0o755)
  copyPackage(join(import.meta.dirname, '../..'), folder, new Set())
  return join(folder, 'node_modules/@tenure/cli/bin/tenure.js')
}

/** Copies a package with its dependencies. */
function copyPackage(source: string, folder: string, done: Set<string>): void {
  const { name, dependencies, optionalDependencies } = JSON.parse(
    readFileSync(join(source, 'package.json'), 'utf8'),
  ) as { name: string; dependencies?: object; optionalDependencies?: object }
  const left = ['src', 'test', 'node_modules'].map((part) => join(source, part))
  cpSync(source, join(folder, 'node_modules', name), { recursive: true, filter: (path) => !left.includes(path) })
  for (const each of Object.keys({ ...dependencies, ...optionalDependencies })) {
    if (done.has(each)) continue
    done.add(each)
    copyPackage(folderOf(each, source), folder, done)
  }
}

function folderOf(name: string, from: string): string {
  const places = createRequire(join(from, 'package.json')).resolve.paths(name) ?? []
  for (const place of places) {
    try {
      return dirname(realpathSync(join(place, name, 'package.json')))
    } catch {
      // The package is not in this folder.
    }
  }
  throw new Error(`${name} is not installed.`)
}
