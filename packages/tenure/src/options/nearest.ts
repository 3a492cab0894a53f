import { nearest as nearestOf } from '@tenure/internal/nearest'

/**
 * The candidate that a typing mistake was probably meant for.
 *
 * @example
 * nearest('leaseDuration', ['leaseDurationMs', 'driftRatio'])   // 'leaseDurationMs'
 */
export function nearest(word: string, candidates: readonly string[]): string | undefined {
  return nearestOf(word, candidates)
}
