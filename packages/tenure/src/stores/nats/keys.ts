import { encodeName } from '../../store-kit/encode-name.ts'
import type { ObjectKind } from '../../store-kit/two-object-store.ts'

/** Parts of letters, digits and a few signs, separated by single dots. Keys allow no others. */
const plainName = /^(?=.{1,200}$)[-/=\w]+(\.[-/=\w]+)*$/

/** The key of one of an election's values. The kind is the last part, so keys of different elections are never equal. */
export function keyOf(election: string, kind: ObjectKind): string {
  return `${encodeName(election, plainName)}.${kind}`
}
