/**
 * Where the sources of the packages' entry points are. Tests that import a package by its name get its sources, so that
 * they share one copy of the library with tests that import its files, and never test an outdated build.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const packages = fileURLToPath(new URL('../packages', import.meta.url))

/**
 * Returns the source of each entry point of these packages, by the name under which it is imported.
 * @param {readonly string[]} folders
 * @returns {Record<string, string>}
 */
export function sourcesByName(folders) {
  return Object.fromEntries(folders.flatMap(entriesOf))
}

/** @param {string} folder */
function entriesOf(folder) {
  /** @type {{ name: string, exports: Record<string, string | { default: string }> }} */
  const { name, exports } = JSON.parse(readFileSync(join(packages, folder, 'package.json'), 'utf8'))
  return Object.entries(exports).flatMap(([path, target]) => {
    if (typeof target === 'string') return []
    // A built file has the path of its source.
    const source = target.default.replace('./dist/', 'src/').replace(/\.js$/, '.ts')
    return [[join(name, path), join(packages, folder, source)]]
  })
}
