/**
 * Builds the packages: programs bundled into one file per entry point plus a few shared ones, and declarations in the
 * same way. Node needs more time to find thirty small files than to run them.
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { constants, gzipSync } from 'node:zlib'
import { rolldown } from 'rolldown'
import { lineBreaks } from './line-breaks.js'
import { mergeDeclarations } from './merge-declarations.js'
import { pruneDeclarations } from './prune-declarations.js'

const root = fileURLToPath(new URL('..', import.meta.url))

/** @typedef {'tenure' | 'testing' | 'service' | 'multicluster' | 'cli'} PackageName */

/** The entry points in the `dist` of each package, with their sources. Programs of a package are also entry points. */
const entriesOf = {
  tenure: () => entriesIn('tenure'),
  testing: () => entriesIn('testing'),
  service: () => entriesIn('service'),
  multicluster: () => ({ index: 'index.ts' }),
  // The supervisor of `tenure run` and a candidate of `tenure demo` run in their own processes.
  cli: () => ({ main: 'main.ts', supervisor: 'run/supervisor.ts', candidate: 'commands/demo/candidate.ts' }),
}

/**
 * The modules that are bundled together, so that a program loads only a few files and none that it does not need.
 * Imports from the private package are included.
 */
const groupsOf = {
  tenure: [
    // For programs that only validate their options.
    {
      name: 'options',
      test: /tenure[\\/]src[\\/](?:common[\\/](?:errors|check-options)|internal[\\/]options)\.ts$/,
      priority: 2,
    },
    // The modules that the main entry point needs, in one file that the others share. LeaderElector is not included,
    // because it imports Kubernetes.
    {
      name: 'engine',
      test: /tenure[\\/]src[\\/](?:(?:common|log|engine)[\\/].+|telemetry[\\/](?:metrics|election-counters)|api[\\/](?!kubernetes|lea(?:der|se)-).+|stores[\\/]memory[\\/].+|clients[\\/]http[\\/]credential-file|store-kit[\\/](?:cas-store|ttl-store|rules|record|compare-and-swap-store|list|watch-timeout|encode-name))\.ts$/,
      priority: 1,
    },
    // Small parts that several stores share.
    {
      name: 'store-parts',
      test: /(?:tenure[\\/]src[\\/](?:clients[\\/]http[\\/](?:provided|environment)|store-kit[\\/](?:load-package|term-record|object-names|call-deadline))|internal[\\/]src[\\/]loopback)\.ts$/,
    },
    {
      name: 'object-stores',
      test: /tenure[\\/]src[\\/](?:store-kit[\\/]two-object-store|stores[\\/]aws[\\/](?:client|failures))\.ts$/,
    },
    {
      name: 'service',
      test: /tenure[\\/]src[\\/]stores[\\/]service[\\/](?:options|environment)\.ts$/,
    },
    {
      name: 'mysql',
      test: /tenure[\\/]src[\\/]stores[\\/]mysql[\\/](?!open|own-pool).+\.ts$/,
    },
    {
      name: 'postgres',
      test: /tenure[\\/]src[\\/]stores[\\/]postgres[\\/](?!open).+\.ts$/,
    },
    {
      name: 'kubernetes',
      test: /tenure[\\/]src[\\/](?:api[\\/](?!kubernetes).+|kubernetes[\\/].+|clients[\\/]kubernetes[\\/](?!credentials[\\/](?:kube|yaml)).+|stores[\\/]kubernetes[\\/].+)\.ts$/,
    },
  ],
  testing: [],
  service: [],
  multicluster: [],
  cli: [
    // The modules that the command line needs to parse its arguments, so that --help is fast.
    {
      name: 'arguments',
      test: /cli[\\/]src[\\/](?:shared[\\/](?:arguments[\\/].+|version)|run[\\/]settings|commands[\\/](?:[^\\/]+|[^\\/]+[\\/](?:command|settings)))\.ts$/,
    },
    // The other programs of the command line do not parse arguments.
    { name: 'clock', test: /(?:cli[\\/]src[\\/]shared|internal[\\/]src)[\\/]clock\.ts$/, priority: 1 },
  ],
}

/**
 * Returns the exports in a package's manifest.
 * @param {PackageName} name
 * @returns {Record<string, string>}
 */
function entriesIn(name) {
  /** @type {{ exports: Record<string, string | { default: string }> }} */
  const { exports } = JSON.parse(readFileSync(join(root, 'packages', name, 'package.json'), 'utf8'))
  const names = Object.values(exports).flatMap((entry) =>
    typeof entry === 'string' ? [] : [entry.default.replace('./dist/', '').replace('.js', '')],
  )
  return Object.fromEntries(names.map((entry) => [entry, `${entry}.ts`]))
}

/**
 * Bundles a package. Dependencies stay external, except for three: the private package, the page, which is never
 * published, and the library's wording of option errors, so that --help does not load the library.
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
    external: /^(?!tenure\/internal\/options$|@tenure\/(?:internal|page)\/|#files$)[^./]/,
    plugins: [...plugins, lineBreaks],
  })
  await built.write({
    dir: target,
    format: 'esm',
    entryFileNames: '[name].js',
    // Programs find each other in the same folder.
    chunkFileNames: name === 'tenure' || name === 'testing' ? 'shared/[name].js' : '[name]-[hash].js',
    codeSplitting: { groups: groupsOf[name] },
    // Only whitespace and comments are removed. All names stay, so that a stack trace can be read, and the documentation
    // is in the declarations, where editors look for it.
    minifyInternalExports: false,
    minify: { compress: false, mangle: false, codegen: { removeWhitespace: true } },
  })
  await built.close()
}

/** The license of Preact, which the page contains, must be named in every copy. */
const pageBanner = '/*! Tenure, Apache-2.0. With Preact, MIT, Copyright (c) 2015-present Jason Miller */'

/**
 * Builds the page into one module that contains its compressed files. Servers keep them in memory and need no further
 * files.
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
 * the declarations would otherwise have errors in every project that checks libraries.
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
 * Returns which names of the library's internal entry points the declarations in these folders import. Only Tenure's own
 * packages use these entry points, and they are compiled from source, so no other name needs a declaration.
 * @param {string[]} folders
 */
function internalNamesIn(folders) {
  /** @type {Set<string>} */
  const needed = new Set()
  for (const folder of folders) {
    for (const file of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
      if (!file.endsWith('.d.ts')) continue
      const text = readFileSync(join(folder, file), 'utf8')
      for (const [, names = '', module = 'index'] of text.matchAll(
        /import (?:type )?\{([^}]*)\} from 'tenure\/internal(?:\/(\w+))?'/g,
      )) {
        for (const [, name] of names.matchAll(/(?:type )?(\w+)(?: as \w+)?/g)) needed.add(`internal/${module} ${name}`)
      }
    }
  }
  return (/** @type {string} */ entry, /** @type {string} */ name) =>
    !entry.startsWith('internal/') || needed.has(`${entry} ${name}`)
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const names = /** @type {PackageName[]} */ (Object.keys(entriesOf))
  const folderOf = (/** @type {string} */ name) => join(root, 'packages', name)
  for (const name of names) rmSync(join(folderOf(name), 'dist'), { recursive: true, force: true })
  rmSync(join(folderOf('page'), 'dist'), { recursive: true, force: true })
  await buildPage(folderOf('page'))
  // Programs first, because they run even if a type is wrong.
  for (const name of names) await bundle(name, join(folderOf(name), 'dist'))
  for (const name of names) declare(folderOf(name))
  const distOf = (/** @type {string} */ name) => join(folderOf(name), 'dist')
  // The library last, because it keeps everything that the declarations of the others refer to.
  for (const name of names.toReversed()) {
    const entries = Object.keys(entriesOf[name]())
    const isNeeded = name === 'tenure' ? internalNamesIn(names.filter((each) => each !== name).map(distOf)) : undefined
    pruneDeclarations(distOf(name), entries, isNeeded)
    mergeDeclarations(distOf(name), entries)
    referToNode(distOf(name), entries)
  }
}
