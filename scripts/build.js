/**
 * Builds the packages: declarations file by file, programs bundled into one file per entry point and a few that they
 * share, because Node takes longer to find thirty small files than to run them.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { rolldown } from 'rolldown'

const root = fileURLToPath(new URL('..', import.meta.url))
const library = join(root, 'packages/tenure')

/**
 * Bundles the entry points of a source folder.
 * @param {string} source
 * @param {string} target
 */
export async function bundle(source, target) {
  /** @type {{ exports: Record<string, string | { default: string }> }} */
  const { exports } = JSON.parse(readFileSync(join(library, 'package.json'), 'utf8'))
  const entries = Object.values(exports).flatMap((entry) => {
    if (typeof entry === 'string') return []
    const name = entry.default.replace('./dist/', '').replace('.js', '')
    return [[name, join(source, `${name}.ts`)]]
  })
  const built = await rolldown({
    input: Object.fromEntries(entries),
    platform: 'node',
    external: ['fs-native-extensions'],
  })
  await built.write({
    dir: target,
    format: 'esm',
    entryFileNames: '[name].js',
    chunkFileNames: 'shared/[name].js',
    // What the main entry point needs, in one file that the others share.
    codeSplitting: {
      groups: [
        { name: 'engine', test: /src[\\/](?:[^\\/]+|styles[\\/].+|stores[\\/](?:memory|cas|ttl|rules|record))\.ts$/ },
      ],
    },
  })
  await built.close()
}

/**
 * A package whose dependencies stay outside of its bundle.
 * @param {string} folder
 * @param {readonly string[]} entries
 */
async function bundleOne(folder, entries) {
  const input = entries.map((entry) => join(folder, 'src', entry))
  const built = await rolldown({ input, platform: 'node', external: /^[^./]/ })
  await built.write({
    dir: join(folder, 'dist'),
    format: 'esm',
    entryFileNames: '[name].js',
    codeSplitting: {
      groups: [
        // What the command line needs to read its arguments, in one file: nobody should wait for help.
        { name: 'arguments', test: argumentModules },
        // Its other programs read none.
        { name: 'clock', test: /cli[\\/]src[\\/]clock\.ts$/, priority: 1 },
      ],
    },
  })
  await built.close()
}

const argumentModules =
  /cli[\\/]src[\\/](?:commands[\\/].+|addresses|config-file|describe|durations|errors|refusal|settings|store-settings|suggestions|values|run[\\/]restart)\.ts$/

/** @param {string} folder */
function declare(folder) {
  const compiler = join(root, 'node_modules/typescript-7/bin/tsc')
  const project = join(folder, 'tsconfig.build.json')
  execFileSync(process.execPath, [compiler, '-p', project, '--emitDeclarationOnly'], { stdio: 'inherit' })
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  // The supervisor of `tenure run` and a candidate of `tenure demo` are programs of their own.
  const others = { service: ['index.ts'], cli: ['main.ts', 'run/supervisor.ts', 'demo/candidate.ts'] }
  const folders = [library, ...Object.keys(others).map((name) => join(root, 'packages', name))]
  for (const folder of folders) rmSync(join(folder, 'dist'), { recursive: true, force: true })
  // Programs first: they run also while a type is wrong.
  await bundle(join(library, 'src'), join(library, 'dist'))
  for (const [name, entries] of Object.entries(others)) await bundleOne(join(root, 'packages', name), entries)
  for (const folder of folders) declare(folder)
}
