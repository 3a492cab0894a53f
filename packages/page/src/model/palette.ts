/** The number of node colors in the style sheet. */
const colours = 8

/**
 * The color of a node, from its name alone, so it is the same in every election, on every page and for every viewer.
 * Two nodes may share a color. Their names are always next to it.
 */
export function colourOf(node: string): number {
  let hash = 0x81_1c_9d_c5
  for (const character of node) hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 0x01_00_01_93)
  // With the lowest bits alone, numbered names would get neighboring colors in order.
  return ((hash ^ (hash >>> 15)) >>> 0) % colours
}
