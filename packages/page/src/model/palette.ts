/** The number of node colors in the style sheet. */
const colorCount = 8

/**
 * The color of a node. It depends only on the node's name, so it is the same in every election, on every page, and for
 * every viewer. Two nodes may share a color, but their names are always shown next to it.
 */
export function colorOf(node: string): number {
  let hash = 0x81_1c_9d_c5
  for (const character of node) hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 0x01_00_01_93)
  // With the lowest bits alone, numbered names would get neighboring colors in order.
  return ((hash ^ (hash >>> 15)) >>> 0) % colorCount
}
