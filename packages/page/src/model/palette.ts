/** How many colours there are for nodes; the style sheet has them. */
const colours = 8

/**
 * The colour of a node, from its name alone: the same in every election, on every page and for every viewer. Two nodes may
 * share one; their names are always beside it.
 */
export function colourOf(node: string): number {
  let hash = 0x81_1c_9d_c5
  for (const character of node) hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 0x01_00_01_93)
  // The lowest bits alone would give names that count up neighbouring colours in turn.
  return ((hash ^ (hash >>> 15)) >>> 0) % colours
}
