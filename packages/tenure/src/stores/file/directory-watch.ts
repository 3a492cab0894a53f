import { watch, type FSWatcher } from 'node:fs'

type Listener = (error?: Error) => void

/** One watch of the kernel for all elections of a directory. */
export class DirectoryWatch {
  readonly #directory: string
  readonly #listeners = new Map<string, Set<Listener>>()
  #watcher: FSWatcher | undefined

  constructor(directory: string) {
    this.#directory = directory
  }

  /** Calls back when the file of that name may have changed, or once with an error. Gives a function that ends it. */
  listen(name: string, listener: Listener): () => void {
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
      // Some systems don't tell which file it was.
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
