// What every operator needs besides Tenure: informers that end with leadership, and a work queue.
import { setTimeout as wait } from 'node:timers/promises'
import { type KubeConfig, type KubernetesObject, type ListPromise, ListWatch, Watch } from '@kubernetes/client-node'

/** The collection that an informer follows, and the callbacks. */
export interface Followed<T extends KubernetesObject> {
  readonly path: string
  readonly labelSelector: string
  readonly list: ListPromise<T>
  /** Called for each object at the start, and whenever one is added, changed, or deleted. */
  onChange(object: T): void
  onError(error: unknown): void
}

/** Starts an informer that ends when the signal aborts. After that it calls nothing and keeps no connection. */
export function follow<T extends KubernetesObject>(
  config: KubeConfig,
  followed: Followed<T>,
  signal: AbortSignal,
): void {
  const watch = new EndingWatch(config, signal)
  const informer = new ListWatch(followed.path, watch, followed.list, false, followed.labelSelector)
  const start = () => informer.start().catch(restart)
  const restart = async (problem: unknown) => {
    // A stopped informer also reports an error. If it were restarted then, it would run forever.
    if (signal.aborted) return
    followed.onError(problem)
    // An informer does not recover from an error by itself.
    await wait(1_000, undefined, { signal }).then(start, () => undefined)
  }
  informer.on('change', (object) => void (signal.aborted || followed.onChange(object)))
  informer.on('error', (problem) => void restart(problem))
  signal.addEventListener('abort', () => void informer.stop(), { once: true })
  void start()
}

/**
 * An informer's stop() misses a watch that is being opened. This watch ends with the signal, even if it opens later.
 */
class EndingWatch extends Watch {
  readonly #signal: AbortSignal

  constructor(config: KubeConfig, signal: AbortSignal) {
    super(config)
    this.#signal = signal
  }

  override async watch(...[path, query, onEvent, done]: Parameters<Watch['watch']>): Promise<AbortController> {
    if (this.#signal.aborted) return new AbortController()
    let end = () => {}
    const onDone = (error: unknown) => {
      this.#signal.removeEventListener('abort', end)
      done(error)
    }
    try {
      const watch = await super.watch(path, query, onEvent, onDone)
      end = () => watch.abort()
      if (this.#signal.aborted) end()
      else if (!watch.signal.aborted) this.#signal.addEventListener('abort', end)
      return watch
    } catch (error) {
      // The credentials cannot be read. An error thrown here would end the process.
      onDone(error)
      return new AbortController()
    }
  }
}

/**
 * A queue of keys. One worker at a time handles a key. A key that is added while it is being handled is handled again,
 * and a failed one is retried later.
 */
export class WorkQueue {
  readonly #work: (key: string) => Promise<void>
  readonly #signal: AbortSignal
  readonly #workers: number
  readonly #waiting = new Set<string>()
  readonly #running = new Map<string, Promise<void>>()
  readonly #failures = new Map<string, number>()

  constructor(work: (key: string) => Promise<void>, signal: AbortSignal, workers = 4) {
    this.#work = work
    this.#signal = signal
    this.#workers = workers
  }

  add(key: string): void {
    if (this.#signal.aborted) return
    this.#waiting.add(key)
    this.#next()
  }

  /** Resolves when the work that was in progress when the signal aborted has ended. */
  async settled(): Promise<void> {
    await Promise.all(this.#running.values())
  }

  #next(): void {
    for (const key of this.#waiting) {
      if (this.#signal.aborted || this.#running.size >= this.#workers) return
      if (this.#running.has(key)) continue
      this.#waiting.delete(key)
      this.#running.set(key, this.#run(key))
    }
  }

  async #run(key: string): Promise<void> {
    try {
      await this.#work(key)
      this.#failures.delete(key)
    } catch {
      const failures = (this.#failures.get(key) ?? 0) + 1
      this.#failures.set(key, failures)
      setTimeout(() => this.add(key), Math.min(100 * 2 ** failures, 60_000))
    }
    this.#running.delete(key)
    this.#next()
  }
}
