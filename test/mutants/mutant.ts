/**
 * Builds packages that contain a mutant. The edit is made while the bundler reads the sources, so no source file is
 * copied or changed.
 */
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { rolldown, type Plugin } from 'rolldown'
import { onTestFinished } from 'vitest'
import { bundle, type PackageName } from '../../scripts/build.js'
import { sourcesByName } from '../../scripts/source-paths.js'

const root = join(import.meta.dirname, '../..')

/** Packages import each other by name. A longer name goes first, because a name also matches its subpaths. */
const entryPoints = Object.fromEntries(
  Object.entries(sourcesByName(['tenure', 'testing'])).toSorted(([a], [b]) => b.length - a.length),
)

/** A text that must occur exactly once in a file, and its replacement. */
export interface Edit {
  /** The path under `src` of the package, such as `store-kit/rules.ts`. */
  readonly file: string
  readonly find: string
  readonly replace: string
  /** The package that contains the file. Default: that of the mutant. */
  readonly package?: PackageName | 'internal'
}

/** One mutant. It has several edits where two guards protect the same guarantee. */
export interface Mutation extends Edit {
  readonly name: string
  readonly also?: readonly Edit[]
}

/**
 * Loads modules of the library with a mutant into this process. These modules share their imports with each other, but
 * not with other mutants or the real library. A module is a path under `src` of the library, or an entry point such as
 * `@tenure/testing/simulation`.
 *
 * @example
 * const mutation = { name: 'no term bump', file: 'store-kit/rules.ts', find: 'afterTerm + 1', replace: 'afterTerm' }
 * const { memory } = await loadMutant<{ memory: typeof import('../../packages/tenure/src/stores/memory/index.ts')
 * }>(mutation, {
 *   memory: 'stores/memory/index.ts',
 * })
 */
export async function loadMutant<Modules extends object>(
  mutation: Mutation,
  modules: { readonly [Name in keyof Modules]: string },
): Promise<Modules> {
  const library = join(root, 'packages/tenure/src')
  const lines = Object.entries<string>(modules).map(
    ([name, file]) => `export * as ${name} from ${JSON.stringify(entryPoints[file] ?? join(library, file))}\n`,
  )
  const entry: Plugin = {
    name: 'entry',
    resolveId: (id) => (id === 'mutant' ? id : null),
    load: (id) => (id === 'mutant' ? lines.join('') : null),
  }
  const { package: own = 'tenure', also = [] } = mutation
  const built = await rolldown({
    input: 'mutant',
    platform: 'node',
    external: ['fs-native-extensions'],
    resolve: { alias: entryPoints },
    plugins: [entry, plant(own, [mutation, ...also])],
  })
  const { output } = await built.generate({ format: 'esm', codeSplitting: false })
  await built.close()
  // Without a source URL, every line of a stack trace would contain the whole program.
  const text = `${output[0].code}\n//# sourceURL=mutant.js`
  return import(/* @vite-ignore */ `data:text/javascript;base64,${Buffer.from(text).toString('base64')}`)
}

/**
 * Builds a package with a mutant for other processes, into a folder that is removed after the test. Returns that
 * folder, which contains the package's `dist` and `bin`.
 */
export async function buildMutant(name: PackageName, edits: readonly Edit[]): Promise<string> {
  const place = mkdtempSync(join(tmpdir(), 'tenure-mutant-'))
  onTestFinished(() => rmSync(place, { recursive: true, force: true }))
  const own = join(root, 'packages', name)
  const folder = join(place, name)
  mkdirSync(join(folder, 'bin'), { recursive: true })
  // Links the dependencies, so that the mutant resolves them like the real package.
  for (const [from, to] of [[root, place] as const, [own, folder] as const]) {
    const packages = join(from, 'node_modules')
    if (existsSync(packages)) symlinkSync(packages, join(to, 'node_modules'))
  }
  for (const file of ['package.json', 'bin/tenure.js']) {
    if (existsSync(join(own, file))) copyFileSync(join(own, file), join(folder, file))
  }
  await bundle(name, join(folder, 'dist'), [plant(name, edits)])
  return folder
}

/** Makes the edits while their files are read. Each must find its text exactly once. */
function plant(name: PackageName | 'internal', edits: readonly Edit[]): Plugin {
  const planted = new Set<Edit>()
  const pathOf = ({ file, package: own = name }: Edit) => join(root, 'packages', own, 'src', file)
  return {
    name: 'plant',
    load(id) {
      const own = edits.filter((edit) => pathOf(edit) === id)
      if (own.length === 0) return null
      let code = readFileSync(id, 'utf8')
      for (const edit of own) {
        const parts = code.split(edit.find)
        if (parts.length !== 2)
          throw new Error(
            `${edit.file} contains this text ${parts.length - 1} times, but it must occur once: ${edit.find}`,
          )
        code = parts.join(edit.replace)
        planted.add(edit)
      }
      return { code, moduleType: 'ts' }
    },
    buildEnd(error) {
      if (error) return
      for (const edit of edits)
        if (!planted.has(edit)) throw new Error(`${edit.file} is not part of the build, so the edit was not made`)
    },
  }
}
