/** A part with more ids than this is split in two. */
const maxInPart = 512

/**
 * Sorted ids, for paging. They are kept as a list of sorted parts, so adding an id moves only entries of one part, and
 * a million ids take little more memory than a plain list.
 */
export class OrderedIds {
  readonly #parts: string[][] = []

  /** Adding an id again has no effect. */
  add(id: string): void {
    const last = this.#parts.at(-1)
    // Ids loaded from a storage arrive in order.
    if (!last || id > (last.at(-1) ?? '')) {
      if (last && last.length < maxInPart) last.push(id)
      else this.#parts.push([id])
      return
    }
    const index = this.#partOf(id)
    const part = this.#parts[index] ?? []
    const at = firstNotBelow(part, id)
    if (part[at] === id) return
    part.splice(at, 0, id)
    if (part.length > maxInPart) this.#parts.splice(index + 1, 0, part.splice(maxInPart / 2))
  }

  /** Returns up to `most` ids after an id, or from the beginning if it is undefined. */
  after(id: string | undefined, most: number): string[] {
    const ids: string[] = []
    let index = id === undefined ? 0 : this.#partOf(id)
    const part = this.#parts[index]
    let from = 0
    if (id !== undefined && part) {
      from = firstNotBelow(part, id)
      if (part[from] === id) from += 1
    }
    for (; index < this.#parts.length && ids.length < most; index++, from = 0) {
      ids.push(...(this.#parts[index] ?? []).slice(from, from + most - ids.length))
    }
    return ids
  }

  /** Returns the index of the last part whose first id is not above the given id. */
  #partOf(id: string): number {
    let low = 0
    let high = this.#parts.length - 1
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if ((this.#parts[middle]?.[0] ?? '') <= id) low = middle
      else high = middle - 1
    }
    return low
  }
}

function firstNotBelow(part: readonly string[], id: string): number {
  let low = 0
  let high = part.length
  while (low < high) {
    const middle = (low + high) >> 1
    if ((part[middle] ?? '') < id) low = middle + 1
    else high = middle
  }
  return low
}
