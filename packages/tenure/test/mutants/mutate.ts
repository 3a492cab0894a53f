import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const packageRoot = fileURLToPath(new URL('../../', import.meta.url))

/** A text that occurs exactly once in a file of `src`, and what stands there instead. */
interface Edit {
  /** Below `src`, such as `stores/rules.ts`. */
  readonly file: string
  readonly find: string
  readonly replace: string
}

/** One fault. It takes several edits where two guards keep the same promise. */
export interface Mutation extends Edit {
  readonly name: string
  readonly also?: readonly Edit[]
}

/** A copy of `src` with one fault in it. */
export interface Mutant {
  /** Imports a module of the copy; everything it imports is the copy's own too. */
  load<Module>(file: string): Promise<Module>
  remove(): Promise<void>
}

/**
 * Copies `src` with one fault planted.
 *
 * @example
 * const mutant = await loadMutant({ name: 'no term bump', file: 'stores/rules.ts', find: 'afterTerm + 1', replace: 'afterTerm' })
 * try {
 *   const { memoryStore } = await mutant.load<typeof import('../../src/stores/memory.ts')>('stores/memory.ts')
 * } finally {
 *   await mutant.remove()
 * }
 */
export async function loadMutant(mutation: Mutation): Promise<Mutant> {
  const { name } = mutation
  // Within the package, so that imports of packages resolve; a folder never used before, so that nothing is cached.
  const mutants = join(packageRoot, '.mutants')
  await mkdir(mutants, { recursive: true })
  const folder = await mkdtemp(join(mutants, `${name.replaceAll(/[^a-z0-9]+/gi, '-')}-`))
  await cp(join(packageRoot, 'src'), folder, { recursive: true })
  for (const { file, find, replace } of [mutation, ...(mutation.also ?? [])]) {
    const parts = (await readFile(join(folder, file), 'utf8')).split(find)
    if (parts.length !== 2) {
      throw new Error(`Mutant "${name}": the text to replace occurs ${parts.length - 1} times in ${file}: ${find}`)
    }
    await writeFile(join(folder, file), parts.join(replace))
  }
  return {
    load: (path) => import(/* @vite-ignore */ pathToFileURL(join(folder, path)).href),
    remove: () => rm(folder, { recursive: true, force: true }),
  }
}
