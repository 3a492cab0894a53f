// What the package costs before it does anything.
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
  // Alternating: what else the machine does hits both alike.
  return Array.from({ length: runs }, () => ({ emptyMs: timed('empty.js'), importMs: timed('import.js') }))
}

/** The tarball's size, of what is built already. */
export function packedBytes() {
  const args = ['pack', './packages/tenure', '--dry-run', '--json', '--ignore-scripts']
  const report = execFileSync('npm', args, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
  /** @type {{ size: number }[]} */
  const packages = JSON.parse(report)
  return packages[0]?.size ?? NaN
}
