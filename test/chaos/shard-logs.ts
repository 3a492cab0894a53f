import type { OwnerSample } from './check-owners.ts'

/**
 * Parses the log of one process. A line has the times before and after the process looked, in microseconds, and what it
 * believed to own if that had changed. A process that was killed while writing may leave a partial line.
 */
export function parseShardLog(text: string): OwnerSample[] {
  let owned: OwnerSample['owned'] = []
  const lines = text.slice(0, text.lastIndexOf('\n') + 1).split('\n')
  return lines.filter(Boolean).map((line) => {
    const [beforeUs, afterUs, changed] = line.split(' ')
    if (changed) owned = JSON.parse(changed) as OwnerSample['owned']
    return { beforeUs: Number(beforeUs), afterUs: Number(afterUs), owned }
  })
}
