import { useEffect, useState } from 'preact/hooks'
import { every } from './clock.ts'

const listeners = new Set<() => void>()
let end: (() => void) | undefined

/** Calls back a few times a second while the page is seen: one timer for all bars. */
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

/** Draws a component again and again. */
export function useTicks(ms: number): void {
  const [, draw] = useState(0)
  useEffect(() => every(ms, () => draw((count) => count + 1)), [ms])
}
