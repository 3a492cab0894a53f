import { keysFrom, Seal } from '../auth/seal.ts'
import { positionFrom, positionLength, textOf, type Position } from '../storage/position.ts'

const longestGroupId = 128
/** The length of these cursors, which distinguishes them from cursors of a position. */
const length = 266

/** Where a snapshot continues that did not fit into one response. */
export interface SnapshotPlace {
  /** The reader has all changes up to here, in the groups whose state it has received. */
  readonly position: Position
  /** The last group whose state was sent, in the order of their ids. */
  readonly after: string
}

/** Cursors in the middle of a snapshot. They are sealed, like those between changes. */
export class SnapshotCursors {
  readonly #seal: Seal

  constructor(secret: string) {
    this.#seal = new Seal(keysFrom(secret, 'snapshots'), positionLength + 1 + longestGroupId)
  }

  cursorAt({ position, after }: SnapshotPlace): string {
    return this.#seal.close(`${textOf(position)} ${after}`)
  }

  /** Returns undefined if it is another kind of cursor, or was not sealed with this secret. */
  find(cursor: string): SnapshotPlace | undefined {
    if (cursor.length !== length || !/^[\w-]+$/.test(cursor)) return undefined
    const [place = '', after] = this.#seal.open(cursor)?.split(' ') ?? []
    const position = positionFrom(place)
    return position && after !== undefined ? { position, after } : undefined
  }
}
