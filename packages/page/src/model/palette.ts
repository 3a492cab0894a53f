/** How many colours there are for nodes; the style sheet has them. */
export const colours = 8

/** A node keeps its colour for as long as the page is open, in all elections: in the order in which they are seen. */
export class Palette {
  readonly #indexes = new Map<string, number>()

  of(node: string): number {
    const known = this.#indexes.get(node)
    if (known !== undefined) return known
    const index = this.#indexes.size % colours
    this.#indexes.set(node, index)
    return index
  }
}
