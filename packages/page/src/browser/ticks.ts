import { useEffect, useState } from 'preact/hooks'
import { every } from './clock.ts'

const listeners = new Set<() => void>()
let end: (() => void) | undefined

/** Calls back a few times a second while the page is visible. All bars share one timer. */
export function onTick(listener: () => void): () => void {
  listeners.add(listener)
  end ??= every(250, () => {
    if (!document.hidden) for (const each of listeners) each()
  })
  return () => {
    listeners.delete(listener)
    if (listeners.size > 0) return
    end?.()
    end = undefined
  }
}

/** Redraws a component periodically. */
export function useTicks(ms: number): void {
  const [, draw] = useState(0)
  useEffect(() => every(ms, () => draw((count) => count + 1)), [ms])
}
