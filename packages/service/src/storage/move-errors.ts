/** Error texts for data that is not served because of a move to another storage. They say what to do. */

/** The error text for the source. If it were served as well, two services would grant leases on the same data. */
export function movedAway(to: string): string {
  return `it was moved to ${to}. Use that one. If the move did not finish, run the same "tenure migrate" again`
}

/** The error text for the target, until the move is complete. */
export const partlyMoved = 'a move to it is not finished. Run the same "tenure migrate" again'
