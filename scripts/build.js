/**
 * Builds the packages: declarations file by file, programs bundled into one file per entry point and a few that they
 * share, because Node takes longer to find thirty small files than to run them.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { rolldown } from 'rolldown'

const root = fileURLToPath(new URL('..', import.meta.url))

/** @typedef {'tenure' | 'service' | 'multicluster' | 'cli'} PackageName */

/** What is in the `dist` of a package, and from which of its sources. The programs of a package are entries too. */
const entriesOf = {
  tenure: libraryEntries,
  service: () => ({ index: 'index.ts' }),
  multicluster: () => ({ index: 'index.ts' }),
  // The supervisor of `tenure run` and a candidate of `tenure demo` are programs of their own.
  cli: () => ({ main: 'main.ts', supervisor: 'run/supervisor.ts', candidate: 'demo/candidate.ts' }),
}

/**
 * What is kept together, so that a program loads few files and none that it does not need. What it imports of the
 * private package comes along.
 */
const groupsOf = {
  tenure: [
    // For programs that only check what they were given.
    { name: 'options', test: /tenure[\\/]src[\\/](?:errors|options[\\/].+)\.ts$/, priority: 2 },
    // What the main entry point needs, in one file that the others share; all but LeaderElector, which knows Kubernetes.
    {
      name: 'engine',
      test: /tenure[\\/]src[\\/](?:(?!index)[^\\/]+|styles[\\/](?!lea(?:der|se)-).+|stores[\\/](?:memory|cas|ttl|rules|record|swap|list))\.ts$/,
      priority: 1,
    },
    {
      name: 'kubernetes',
      test: /tenure[\\/]src[\\/](?:styles[\\/].+|kubernetes[\\/](?!index|credentials[\\/](?:kube|yaml)).+|stores[\\/]kubernetes)\.ts$/,
    },
  ],
  service: [],
  multicluster: [],
  cli: [
    // What the command line needs to read its arguments: nobody should wait for help.
    {
      name: 'arguments',
      test: /cli[\\/]src[\\/](?:shared[\\/]arguments[\\/].+|[^\\/]+[\\/](?:command|settings))\.ts$/,
    },
    // Its other programs read none.
    { name: 'clock', test: /(?:cli[\\/]src[\\/]shared|internal[\\/]src)[\\/]clock\.ts$/, priority: 1 },
  ],
}

/** @returns {Record<string, string>} */
function libraryEntries() {
  /** @type {{ exports: Record<string, string | { default: string }> }} */
  const { exports } = JSON.parse(readFileSync(join(root, 'packages/tenure/package.json'), 'utf8'))
  const names = Object.values(exports).flatMap((entry) =>
    typeof entry === 'string' ? [] : [entry.default.replace('./dist/', '').replace('.js', '')],
  )
  return Object.fromEntries(names.map((name) => [name, `${name}.ts`]))
}

/**
 * Bundles a package. What it depends on stays outside, all but two: what the packages share, which is never published,
 * and the library's check of options, which is small, so that help is shown without loading the library.
 * @param {PackageName} name
 * @param {string} target
 * @param {import('rolldown').Plugin[]} [plugins]
 */
export async function bundle(name, target, plugins = []) {
  const source = join(root, 'packages', name, 'src')
  const entries = Object.entries(entriesOf[name]()).map(([entry, file]) => [entry, join(source, file)])
  const input = Object.fromEntries(entries)
  const built = await rolldown({
    input,
    platform: 'node',
    external: /^(?!tenure\/options$|@tenure\/internal\/)[^./]/,
    plugins,
  })
  await built.write({
    dir: target,
    format: 'esm',
    entryFileNames: '[name].js',
    // Programs find each other beside them.
    chunkFileNames: name === 'tenure' ? 'shared/[name].js' : '[name]-[hash].js',
    codeSplitting: { groups: groupsOf[name] },
    // Documentation is in the declarations, which is where editors look for it.
    comments: { jsdoc: false },
  })
  await built.close()
}

/** @param {string} folder */
function declare(folder) {
  const compiler = join(root, 'node_modules/typescript-7/bin/tsc')
  const project = join(folder, 'tsconfig.build.json')
  execFileSync(process.execPath, [compiler, '-p', project, '--emitDeclarationOnly'], { stdio: 'inherit' })
}

/**
 * Removes declarations that no entry point leads to: nobody can import them, and they are a third of all of them.
 * @param {string} target
 * @param {string[]} entries
 */
function dropUnreachable(target, entries) {
  /** @type {Set<string>} */
  const reached = new Set()
  const reach = (/** @type {string} */ file) => {
    if (reached.has(file) || !existsSync(file)) return
    reached.add(file)
    for (const [, path = ''] of readFileSync(file, 'utf8').matchAll(/(?:from|import)[ (]+['"](\.[^'"]+)\.[jt]s['"]/g)) {
      reach(join(dirname(file), `${path}.d.ts`))
    }
  }
  for (const entry of entries) reach(join(target, `${entry}.d.ts`))
  for (const name of readdirSync(target, { recursive: true, encoding: 'utf8' })) {
    if (name.endsWith('.d.ts') && !reached.has(join(target, name))) rmSync(join(target, name))
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const names = /** @type {PackageName[]} */ (Object.keys(entriesOf))
  const folderOf = (/** @type {string} */ name) => join(root, 'packages', name)
  for (const name of names) rmSync(join(folderOf(name), 'dist'), { recursive: true, force: true })
  // Programs first: they run also while a type is wrong.
  for (const name of names) await bundle(name, join(folderOf(name), 'dist'))
  for (const name of names) {
    declare(folderOf(name))
    dropUnreachable(join(folderOf(name), 'dist'), Object.keys(entriesOf[name]()))
  }
}
