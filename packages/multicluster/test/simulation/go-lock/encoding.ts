/**
 * Encodes a model state as bytes, so that names, terms, and times with the same meaning are encoded in the same way.
 */
import type { Scene, Setup } from './scene.ts'

/** The format of the names of requests, attempts, and versions. No other text has this format. */
const name = /^n\d+$/

export function writeScene(scene: Scene, setup: Setup): Uint8Array {
  const floor = lowestTerm(scene)
  const oldest = -(setup.leaseTicks + setup.boundTicks + setup.retryTicks)
  const names = new Map<string, string>()
  const renamed = (text: string) => {
    const known = names.get(text) ?? `n${names.size + 1}`
    names.set(text, known)
    return known
  }
  const text = JSON.stringify(canonical(scene, setup), (field, value: unknown) => {
    if (typeof value === 'string') return name.test(value) ? renamed(value) : value
    if (typeof value !== 'number') return value
    if (field === 'names') return 0
    if (field.endsWith('Ticks')) return Math.max(oldest, value)
    if (field === 'term' || field.endsWith('Term')) return value === 0 ? 0 : value - floor
    return value
  })
  return Buffer.from(JSON.stringify({ size: names.size, text }))
}

export function readScene(bytes: Uint8Array, offset: number): Scene {
  const length = offset >= 2 ? ((bytes[offset - 2] ?? 0) << 8) + (bytes[offset - 1] ?? 0) : bytes.length
  const { size, text } = JSON.parse(Buffer.from(bytes.subarray(offset, offset + length)).toString()) as {
    size: number
    text: string
  }
  return { ...(JSON.parse(text) as Scene), names: size }
}

/** Drops everything that no decision will ever read again. */
function canonical(scene: Scene, { leaseTicks }: Setup): Scene {
  return {
    ...scene,
    candidates: scene.candidates.map((candidate) => {
      const isOver = candidate.term === 0 || candidate.returnedTicks + leaseTicks <= 0
      const nextTicks = candidate.waits || candidate.life === 'down' ? 0 : Math.max(0, candidate.nextTicks)
      return { ...candidate, nextTicks, ...(isOver && { term: 0, returnedTicks: 0 }) }
    }),
    late: scene.late.toSorted((one, other) => (one.id < other.id ? -1 : 1)),
  }
}

/** Returns the term below which no term matters. All terms are encoded relative to it. */
function lowestTerm(scene: Scene): number {
  const terms = [scene.highestTerm, scene.record?.term ?? 0, scene.believed.term]
  for (const { term, highestTerm, grant, pending } of scene.candidates) {
    terms.push(term, highestTerm, grant?.term ?? 0, pending?.afterTerm ?? 0)
  }
  for (const { claim } of [...scene.requests, ...scene.late]) {
    terms.push(claim.verb === 'acquire' ? claim.of.afterTerm : claim.of.term)
  }
  const positive = terms.filter((term) => term > 0)
  return positive.length === 0 ? 0 : Math.min(...positive) - 1
}
