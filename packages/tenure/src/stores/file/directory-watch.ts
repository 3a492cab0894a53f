import { watch, type FSWatcher } from 'node:fs'

type DirectoryListener = (error?: Error) => void

/** One kernel watch for all elections of a directory. */
export class DirectoryWatch {
  readonly #directory: string
  readonly #listeners = new Map<string, Set<DirectoryListener>>()
  #watcher: FSWatcher | undefined

  constructor(directory: string) {
    this.#directory = directory
  }

  /** Calls `listener` when the named file may have changed, or once with an error. Returns a function that stops it. */
  listen(name: string, listener: DirectoryListener): () => void {
    this.#watcher ??= this.#open()
    const listeners = this.#listeners.get(name) ?? new Set()
    this.#listeners.set(name, listeners.add(listener))
    return () => {
      listeners.delete(listener)
      if (listeners.size === 0 && this.#listeners.get(name) === listeners) this.#listeners.delete(name)
      if (this.#listeners.size === 0) this.#close()
    }
  }

  #open(): FSWatcher {
    const watcher = watch(this.#directory, { persistent: false })
    watcher.on('change', (_event, name) => {
      // Some systems do not report which file changed.
      const concerned = name === null ? [...this.#listeners.values()] : [this.#listeners.get(String(name)) ?? []]
      for (const listeners of concerned) for (const listener of listeners) listener()
    })
    watcher.on('error', (error) => {
      this.#close()
      const all = [...this.#listeners.values()]
      this.#listeners.clear()
      for (const listeners of all) for (const listener of listeners) listener(error)
    })
    return watcher
  }

  #close(): void {
    this.#watcher?.close()
    this.#watcher = undefined
  }
}
