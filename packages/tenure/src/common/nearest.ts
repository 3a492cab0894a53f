import { nearest as nearestOf } from '@tenure/internal/nearest'

/**
 * The candidate that a misspelled word was probably meant to be. Undefined if none is close enough.
 *
 * @example
 * nearest('leaseDuration', ['leaseDurationMs', 'driftRatio']) // 'leaseDurationMs'
 */
export function nearest(word: string, candidates: readonly string[]): string | undefined {
  return nearestOf(word, candidates)
}
