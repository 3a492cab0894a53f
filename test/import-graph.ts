import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { root } from './source-files.ts'
import { findImports, type Finding } from './style-rules.ts'

/** An import of a source file. */
export interface Import extends Finding {
  /** The source that is meant, relative to the repository; undefined for what is not in it. */
  readonly file: string | undefined
  /** The package of this repository that is meant, unless it is the importer's own. */
  readonly package: string | undefined
  readonly dynamic: boolean
  readonly erased: boolean
}

/** What a file imports. Its path is relative to the repository. */
export function importsOf(path: string, text = readFileSync(join(root, path), 'utf8')): Import[] {
  return findImports(text, path).map((found) => {
    if (found.what.startsWith('.')) return { ...found, file: join(dirname(path), found.what), package: undefined }
    const [, name, entry] = /^(?:@tenure\/|(?=tenure(?:\/|$)))([a-z]+)(?:\/(.+))?$/.exec(found.what) ?? []
    return { ...found, package: name, file: name && join('packages', name, 'src', sourceOf(name, entry)) }
  })
}

/** Where an entry point of a package begins; what is built has the path of its source. */
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
 * The files that are in a cycle of imports, or between two cycles: what is left when everything is taken away again and
 * again that imports nothing of the rest, or that nothing of the rest imports.
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
