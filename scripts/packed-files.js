// node scripts/packed-files.js: writes the list of files in each published package, as npm would pack them.
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
export const packedFilesList = join(root, 'scripts/packed-files.json')

/** The folders of the published packages. */
export function publishedFolders() {
  const isPublic = (/** @type {string} */ name) =>
    !JSON.parse(readFileSync(join(root, 'packages', name, 'package.json'), 'utf8')).private
  return readdirSync(join(root, 'packages')).filter(isPublic)
}

/**
 * The files of a package, sorted. Shared files of the build have a hash in their names, so they count as one.
 * @param {string} folder
 * @returns {string[]}
 */
export function packedFiles(folder) {
  const args = ['pack', '--dry-run', '--json', '--ignore-scripts', `./packages/${folder}`]
  // On Windows, npm is a script that needs a shell.
  const options = { cwd: root, encoding: /** @type {const} */ ('utf8'), shell: process.platform === 'win32' }
  const [packed] = JSON.parse(execFileSync('npm', args, { ...options, stdio: ['ignore', 'pipe', 'ignore'] }))
  return withoutHashes(packed.files.map((/** @type {{ path: string }} */ { path }) => path))
}

/** @param {readonly string[]} paths */
export function withoutHashes(paths) {
  const named = paths.map((path) => path.replace(/[\w-]+-[\w-]{8}\.js$/, '*-HASH.js'))
  return [...new Set(named)].toSorted()
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const lists = Object.fromEntries(publishedFolders().map((folder) => [folder, packedFiles(folder)]))
  writeFileSync(packedFilesList, `${JSON.stringify(lists, undefined, 2)}\n`)
}
