import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { root } from './source-files.ts'
import { findImports, type Finding } from './style-rules.ts'

/** An import of a source file. */
export interface Import extends Finding {
  /** The imported source, relative to the repository, or undefined if it is not part of the repository. */
  readonly file: string | undefined
  /** The imported package of this repository, unless it is the importer's own. */
  readonly package: string | undefined
  readonly dynamic: boolean
  readonly erased: boolean
}

/** Returns the imports of a file. Its path is relative to the repository. */
export function importsOf(path: string, text = readFileSync(join(root, path), 'utf8')): Import[] {
  return findImports(text, path).map((found) => {
    if (found.what.startsWith('.')) return { ...found, file: join(dirname(path), found.what), package: undefined }
    const [, name, entry] = /^(?:@tenure\/|(?=tenure(?:\/|$)))([a-z]+)(?:\/(.+))?$/.exec(found.what) ?? []
    return { ...found, package: name, file: name && join('packages', name, 'src', sourceOf(name, entry)) }
  })
}

/** Returns the source of an entry point of a package. A built file has the path of its source. */
function sourceOf(name: string, entry: string | undefined): string {
  if (name === 'internal' || name === 'page') return `${entry}.ts`
  const manifest: { exports: Record<string, { default: string }> } = JSON.parse(
    readFileSync(join(root, 'packages', name, 'package.json'), 'utf8'),
  )
  const built = manifest.exports[entry === undefined ? '.' : `./${entry}`]?.default
  if (built === undefined) throw new Error(`${name} has no entry point "${entry ?? '.'}"`)
  return built.replace('./dist/', '').replace(/\.js$/, '.ts')
}

/**
 * Returns the files that are in a cycle of imports, or between two cycles. Repeatedly removes files that import none of
 * the remaining files, or that none of them imports.
 */
export function filesInCycles(graph: ReadonlyMap<string, readonly string[]>): string[] {
  const left = new Map(graph)
  for (let before = Infinity; left.size < before;) {
    before = left.size
    const imported = new Set([...left.values()].flat())
    for (const [file, targets] of left) {
      if (!imported.has(file) || !targets.some((target) => left.has(target))) left.delete(file)
    }
  }
  return [...left.keys()].toSorted()
}
