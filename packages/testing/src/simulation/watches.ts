/** The watches of a simulated server. Each shows the current state first, and then the state after each change. */
export interface Watches<State> {
  notify(key: string): void
  watch(key: string, signal: AbortSignal): AsyncGenerator<State, void, undefined>
}

/** Creates the watches. They show every state, in order. */
export function watchesOf<State>(stateOf: (key: string) => State): Watches<State> {
  const watchers = new Set<(key: string) => void>()

  async function* watch(key: string, signal: AbortSignal): AsyncGenerator<State, void, undefined> {
    const news: State[] = [stateOf(key)]
    let wake: (() => void) | undefined
    const watcher = (changed: string) => {
      if (changed === key) news.push(stateOf(key))
      wake?.()
    }
    watchers.add(watcher)
    signal.addEventListener('abort', () => wake?.(), { once: true })
    try {
      while (!signal.aborted) {
        while (news.length > 0 && !signal.aborted) yield news.shift() as State
        if (!signal.aborted) await new Promise<void>((resolve) => (wake = resolve))
      }
    } finally {
      watchers.delete(watcher)
    }
  }

  return {
    watch,
    notify(key) {
      for (const watcher of watchers) watcher(key)
    },
  }
}
