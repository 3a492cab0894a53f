/**
 * Builds the packages: declarations file by file, and programs bundled into one file per entry point plus a few shared
 * ones. Node takes longer to find thirty small files than to run them.
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { constants, gzipSync } from 'node:zlib'
import { rolldown } from 'rolldown'

const root = fileURLToPath(new URL('..', import.meta.url))

/** @typedef {'tenure' | 'service' | 'multicluster' | 'cli'} PackageName */

/** The entry points in the `dist` of each package, with their sources. Programs of a package are entry points too. */
const entriesOf = {
  tenure: libraryEntries,
  service: () => ({ index: 'index.ts' }),
  multicluster: () => ({ index: 'index.ts' }),
  // The supervisor of `tenure run` and a candidate of `tenure demo` run in their own processes.
  cli: () => ({ main: 'main.ts', supervisor: 'run/supervisor.ts', candidate: 'demo/candidate.ts' }),
}

/**
 * What is bundled together, so that a program loads few files and none that it does not need. Imports from the private
 * package are included.
 */
const groupsOf = {
  tenure: [
    // For programs that only validate their options.
    {
      name: 'options',
      test: /tenure[\\/]src[\\/](?:common[\\/](?:errors|check-options|nearest)|options[\\/].+)\.ts$/,
      priority: 2,
    },
    // What the main entry point needs, in one file that the others share. LeaderElector is not in it, because it
    // imports Kubernetes.
    {
      name: 'engine',
      test: /tenure[\\/]src[\\/](?:(?:common|log|engine)[\\/].+|telemetry[\\/](?:metrics|election-counters)|api[\\/](?!kubernetes|lea(?:der|se)-).+|stores[\\/]memory[\\/].+|store-kit[\\/](?:cas-store|ttl-store|rules|record|compare-and-swap-store|list))\.ts$/,
      priority: 1,
    },
    {
      name: 'kubernetes',
      test: /tenure[\\/]src[\\/](?:api[\\/](?!kubernetes).+|kubernetes[\\/].+|clients[\\/]kubernetes[\\/](?!credentials[\\/](?:kube|yaml)).+|stores[\\/]kubernetes[\\/].+)\.ts$/,
    },
  ],
  service: [],
  multicluster: [],
  cli: [
    // What the command line needs to parse its arguments, so that --help is fast.
    {
      name: 'arguments',
      test: /cli[\\/]src[\\/](?:shared[\\/]arguments[\\/].+|[^\\/]+[\\/](?:command|settings))\.ts$/,
    },
    // The other programs of the command line do not parse arguments.
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
 * Bundles a package. Dependencies stay external, except for three: the private package, the page, which is never
 * published, and the library's small check of options, so that --help does not load the library.
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
    external: /^(?!tenure\/options$|@tenure\/(?:internal|page)\/|#files$)[^./]/,
    plugins,
  })
  await built.write({
    dir: target,
    format: 'esm',
    entryFileNames: '[name].js',
    // Programs find each other in the same folder.
    chunkFileNames: name === 'tenure' ? 'shared/[name].js' : '[name]-[hash].js',
    codeSplitting: { groups: groupsOf[name] },
    // The documentation is in the declarations, where editors look for it.
    comments: { jsdoc: false },
  })
  await built.close()
}

/** The license of Preact, which the page contains, must be named in every copy. */
const pageBanner = '/*! Tenure, Apache-2.0. With Preact, MIT, Copyright (c) 2015-present Jason Miller */'

/**
 * Builds the page into one module that contains its compressed files. Servers have them in memory and need no files
 * beside them.
 * @param {string} folder
 */
async function buildPage(folder) {
  const source = join(folder, 'src/browser')
  const built = await rolldown({
    input: join(source, 'main.tsx'),
    platform: 'browser',
    transform: { target: 'es2022' },
  })
  const { output } = await built.generate({
    format: 'esm',
    minify: true,
    comments: { legal: false },
    banner: pageBanner,
  })
  await built.close()
  const [script] = output
  if (output.length !== 1) throw new Error('The page has more than one script.')
  const read = (/** @type {string} */ name) => readFileSync(join(source, name), 'utf8')
  const style = read('page.css')
    .replaceAll(/\/\*[^]*?\*\//g, '')
    .replaceAll(/\s*\n\s*/g, '\n')
  const files = [
    fileOf('script', 'js', 'text/javascript; charset=utf-8', script.code),
    fileOf('style', 'css', 'text/css; charset=utf-8', style),
    fileOf('icon', 'svg', 'image/svg+xml', read('icon.svg')),
  ]
  const page = files.reduce((text, { name, base }) => text.replace(`page/${base}`, `page/${name}`), read('index.html'))
  const html = fileOf('index', 'html', 'text/html; charset=utf-8', page)
  mkdirSync(join(folder, 'dist'), { recursive: true })
  const text = (/** @type {unknown} */ value) => JSON.stringify(value, ['name', 'type', 'gzip'])
  writeFileSync(
    join(folder, 'dist/files.js'),
    `export const html = ${text(html)}\nexport const files = ${text(files)}\n`,
  )
}

/** @param {string} stem @param {string} ending @param {string} type @param {string} text */
function fileOf(stem, ending, type, text) {
  const hash = createHash('sha256')
    .update(text)
    .digest('base64url')
    .replaceAll(/[^A-Za-z0-9]/g, '')
    .slice(0, 12)
  const gzip = gzipSync(text, { level: constants.Z_BEST_COMPRESSION }).toString('base64')
  return { base: `${stem}.${ending}`, name: `${stem}-${hash}.${ending}`, type, gzip }
}

/** @param {string} folder */
function declare(folder) {
  const compiler = join(root, 'node_modules/typescript-7/bin/tsc')
  const project = join(folder, 'tsconfig.build.json')
  execFileSync(process.execPath, [compiler, '-p', project, '--emitDeclarationOnly'], { stdio: 'inherit' })
}

/**
 * Adds a reference to the types of Node to every entry point. TypeScript 6 and newer load no types automatically, so
 * the declarations would have errors wherever libraries are checked.
 * @param {string} target
 * @param {string[]} entries
 */
function referToNode(target, entries) {
  for (const entry of entries) {
    const file = join(target, `${entry}.d.ts`)
    if (existsSync(file)) writeFileSync(file, `/// <reference types="node" />\n${readFileSync(file, 'utf8')}`)
  }
}

/**
 * Removes declarations that no entry point reaches. Nobody can import them, and they are a third of all declarations.
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
  rmSync(join(folderOf('page'), 'dist'), { recursive: true, force: true })
  await buildPage(folderOf('page'))
  // Programs first, because they run even if a type is wrong.
  for (const name of names) await bundle(name, join(folderOf(name), 'dist'))
  for (const name of names) {
    declare(folderOf(name))
    const dist = join(folderOf(name), 'dist')
    const entries = Object.keys(entriesOf[name]())
    dropUnreachable(dist, entries)
    referToNode(dist, entries)
  }
}
