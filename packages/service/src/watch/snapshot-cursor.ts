import { deriveKeys, Seal } from '../common/seal.ts'
import { positionFrom, positionLength, textOf, type Position } from '../storage/position.ts'

const longestGroupId = 128
/** The length of these cursors. It distinguishes them from cursors of a position. */
const length = 266

/** The position at which to continue a snapshot that did not fit into one response. */
export interface SnapshotPosition {
  /** The reader has all changes up to this position, in the groups whose state it has received. */
  readonly position: Position
  /** The last group whose state was sent, in order of id. */
  readonly after: string
}

/** Cursors in the middle of a snapshot. They are sealed like cursors between changes. */
export class SnapshotCursors {
  readonly #seal: Seal

  constructor(secret: string) {
    this.#seal = new Seal(deriveKeys(secret, 'snapshots'), positionLength + 1 + longestGroupId)
  }

  cursorAt({ position, after }: SnapshotPosition): string {
    return this.#seal.close(`${textOf(position)} ${after}`)
  }

  /** Returns undefined if the text is another kind of cursor, or was not sealed with this secret. */
  find(cursor: string): SnapshotPosition | undefined {
    if (cursor.length !== length || !/^[\w-]+$/.test(cursor)) return undefined
    const [positionText = '', after] = this.#seal.open(cursor)?.split(' ') ?? []
    const position = positionFrom(positionText)
    return position && after !== undefined ? { position, after } : undefined
  }
}
