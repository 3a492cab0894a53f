// Packs each public package as it would be published, and checks what a user would get.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

// The packed library is 268 KB: programs, declarations with comments, the README, and the license.
// To get below 200 KB, the names of functions and fields would have to be shortened, and stack traces show those names.
const maxPackedBytes = 275_000
// The private package and the page are bundled into each package. Nobody can install them.
const internal = /@tenure\/(?:internal|page)\b/
const allowed = /^(bin\/tenure\.js|dist\/.+\.(js|d\.ts)|package\.json|README\.md|LICENSE)$/

const folder = mkdtempSync(join(tmpdir(), 'tenure-pack-'))
try {
  for (const name of readdirSync('packages')) check(join('packages', name))
} finally {
  rmSync(folder, { recursive: true })
}

/** @param {string} directory */
function check(directory) {
  if (JSON.parse(readFileSync(join(directory, 'package.json'), 'utf8')).private) return
  const pack = execFileSync('npm', ['pack', `./${directory}`, '--json', '--pack-destination', folder], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  // A lifecycle script may print before the report.
  const [packed] = JSON.parse(pack.slice(pack.search(/^\[/m)))
  /** @type {string[]} */
  const files = packed.files.map((/** @type {{ path: string }} */ file) => file.path)
  const strangers = files.filter((file) => !allowed.test(file))
  const named = files.filter((file) => internal.test(readFileSync(join(directory, file), 'utf8')))
  if (named.length > 0) throw new Error(`${packed.filename} imports a private package: ${named.join(', ')}`)
  if (strangers.length > 0) throw new Error(`${packed.filename} contains unexpected files: ${strangers.join(', ')}`)
  if (packed.size > maxPackedBytes)
    throw new Error(`${packed.filename} is ${packed.size} bytes, more than the limit of ${maxPackedBytes}`)
  console.log(`${packed.filename}: ${files.length} files, ${packed.size} bytes packed`)

  const tarball = join(folder, packed.filename)
  // Everything that npm does before it sends the package. It needs no login.
  execFileSync('npm', ['publish', tarball, '--dry-run', '--ignore-scripts'], { stdio: ['ignore', 'ignore', 'inherit'] })
  run('publint', 'run', tarball, '--strict')
  // Without this option attw would ask the registry for types of another package.
  run('attw', tarball, '--profile', 'esm-only', '--no-definitely-typed', '--format', 'table-flipped')
}

/** @param {string} tool @param {string[]} args */
function run(tool, ...args) {
  execFileSync(join('node_modules', '.bin', tool), args, { stdio: 'inherit' })
}
