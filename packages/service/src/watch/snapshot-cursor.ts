import { keysFrom, Seal } from '../auth/seal.ts'
import { positionFrom, positionLength, textOf, type Position } from '../storage/position.ts'

const longestGroupId = 128
/** Of a cursor, which tells it from one of a position. */
const length = 266

/** Where a snapshot goes on that did not fit into one answer. */
export interface SnapshotPlace {
  /** The reader has all changes up to here, of the groups whose state it was shown. */
  readonly position: Position
  /** The last group whose state was shown, in the order of their ids. */
  readonly after: string
}

/** Cursors in the middle of a snapshot. Sealed, as those between changes are. */
export class SnapshotCursors {
  readonly #seal: Seal

  constructor(secret: string) {
    this.#seal = new Seal(keysFrom(secret, 'snapshots'), positionLength + 1 + longestGroupId)
  }

  cursorAt({ position, after }: SnapshotPlace): string {
    return this.#seal.close(`${textOf(position)} ${after}`)
  }

  /** Undefined if it is another kind of cursor, or nobody who knows the secret gave it out. */
  find(cursor: string): SnapshotPlace | undefined {
    if (cursor.length !== length || !/^[\w-]+$/.test(cursor)) return undefined
    const [place = '', after] = this.#seal.open(cursor)?.split(' ') ?? []
    const position = positionFrom(place)
    return position && after !== undefined ? { position, after } : undefined
  }
}
