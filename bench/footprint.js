// Measures what the package costs before it does any work.
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'

const root = join(import.meta.dirname, '..')

/** @param {number} runs */
export function measureImport(runs) {
  const timed = (/** @type {string} */ program) => {
    const startMs = performance.now()
    execFileSync(process.execPath, [join(import.meta.dirname, 'programs', program)])
    return performance.now() - startMs
  }
  // The runs alternate, so that other load on the machine affects both equally.
  return Array.from({ length: runs }, () => ({ emptyMs: timed('empty.js'), importMs: timed('import.js') }))
}

/** Returns the size of the tarball of the existing build. */
export function packedBytes() {
  const args = ['pack', './packages/tenure', '--dry-run', '--json', '--ignore-scripts']
  const report = execFileSync('npm', args, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
  /** @type {{ size: number }[]} */
  const packages = JSON.parse(report)
  return packages[0]?.size ?? NaN
}
