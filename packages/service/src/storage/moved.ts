/** Why data are not served that are moved to another storage, in words that say what to do. */

/** Of the source: two services on the same data would both grant. */
export function movedAway(to: string): string {
  return `it was moved to ${to}. Serve that one. If the move did not end, run the same "tenure migrate" again`
}

/** Of the target, until all of it is there. */
export const partlyMoved = 'data are being moved here, and may not be complete. Run the same "tenure migrate" again'
