import { readFileSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'

/** One system call that changed names in a directory, or synced a file or a directory. */
export interface Step {
  readonly what: string
  readonly path: string
  readonly to: string
}

/** A file or a directory. A power failure may lose its name and its content. */
interface Node {
  readonly kind: 'file' | 'directory'
  /** The content that is certainly on the disk. */
  synced: string
}

type Names = Map<string, Node>

/** A change of names that may or may not have reached the disk. */
interface Change {
  /** The directory whose sync makes the change durable. */
  readonly directory: string
  apply(names: Names): void
}

/** A state that a power failure may leave: files by their path under the root, with their content. */
export type DiskState = ReadonlyMap<string, string>

/**
 * A disk as POSIX describes it: a name is durable once its directory was synced, and content once its file was. Until
 * then, any subset of the pending changes may have reached the disk.
 */
export class Disk {
  readonly #root: string
  readonly #lasting: Names = new Map()
  readonly #visible: Names = new Map()
  readonly #known = new Map<string, DiskState>()
  #pending: Change[] = []

  constructor(root: string) {
    this.#root = root
  }

  take({ what, path, to }: Step): void {
    if (what === 'sync') return this.#sync(path)
    if (what === 'rename') return this.#rename(path, to)
    const directory = dirname(path)
    if (what === 'remove') return this.#change({ directory, apply: (names) => void names.delete(path) })
    const node: Node = { kind: what === 'make' ? 'directory' : 'file', synced: '' }
    this.#change({ directory, apply: (names) => void names.set(path, node) })
  }

  /** Every state that a power failure at this moment may leave. Equal states are the same object. */
  remains(): Set<DiskState> {
    const states = new Set<DiskState>()
    for (let kept = 0; kept < 2 ** this.#pending.length; kept++) {
      const names = new Map(this.#lasting)
      this.#pending.forEach((change, index) => (kept & (1 << index) ? change.apply(names) : undefined))
      const files = [...names].filter(([path, { kind }]) => kind === 'file' && this.#isReached(path, names))
      const state = files.map(([path, { synced }]) => [relative(this.#root, path), synced] as const).sort()
      const key = JSON.stringify(state)
      const remains = this.#known.get(key) ?? new Map(state)
      this.#known.set(key, remains)
      states.add(remains)
    }
    return states
  }

  #rename(from: string, to: string): void {
    if (dirname(from) !== dirname(to)) throw new Error(`This disk does not support the rename from ${from} to ${to}.`)
    const node = this.#visible.get(from)
    if (!node) throw new Error(`This disk does not know ${from}.`)
    this.#change({
      directory: dirname(to),
      apply(names) {
        names.delete(from)
        names.set(to, node)
      },
    })
  }

  #sync(path: string): void {
    const node = this.#visible.get(path)
    if (node?.kind === 'file') node.synced = readFileSync(path, 'utf8')
    for (const change of this.#pending) if (change.directory === path) change.apply(this.#lasting)
    this.#pending = this.#pending.filter(({ directory }) => directory !== path)
  }

  #change(change: Change): void {
    change.apply(this.#visible)
    this.#pending.push(change)
  }

  #isReached(path: string, names: Names): boolean {
    const parent = dirname(path)
    return parent === this.#root || (names.has(parent) && this.#isReached(parent, names))
  }
}

/** Writes a state of the disk into a directory. */
export async function restore(remains: DiskState, directory: string): Promise<void> {
  for (const [path, text] of remains) {
    await mkdir(dirname(join(directory, path)), { recursive: true, mode: 0o700 })
    await writeFile(join(directory, path), text, { mode: 0o600 })
  }
}
