/** How many terms are skipped after each restore of a backup. */
export const skippedTerms = 1_000_000

/**
 * Returns the term that a group continues from. After a backup is restored, it is unknown which terms have been granted
 * since. So each group skips a great many terms above its own.
 */
export function firstTerm(restores: number, term = 0): number {
  return Math.min(term + restores * skippedTerms, Number.MAX_SAFE_INTEGER)
}
