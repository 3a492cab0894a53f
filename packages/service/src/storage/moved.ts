/** Error texts for data that is not served because of a move to another storage, with what to do. */

/** For the source: two services on the same data would both grant. */
export function movedAway(to: string): string {
  return `it was moved to ${to}. Use that one. If the move did not finish, run the same "tenure migrate" again`
}

/** For the target, until everything is there. */
export const partlyMoved = 'a move to it is not finished. Run the same "tenure migrate" again'
