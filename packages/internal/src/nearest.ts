// The cost grows quadratically, and longer words are rarely mistyped.
const longestWord = 64

/** The candidate that a misspelled word probably stands for. Undefined if none is close enough. */
export function nearest(word: string, candidates: readonly string[]): string | undefined {
  if (word.length > longestWord) return undefined
  const [best] = candidates
    .map((candidate) => ({ candidate, edits: distance(word.toLowerCase(), candidate.toLowerCase()) }))
    .filter(({ candidate, edits }) => edits <= Math.max(2, candidate.length / 3) || begins(candidate, word))
    .sort((one, other) => one.edits - other.edits)
  return best?.candidate
}

/** Whether the word is a prefix. By its letters alone, "mem" is far from "memory". */
function begins(candidate: string, word: string): boolean {
  return word.length >= 3 && candidate.toLowerCase().startsWith(word.toLowerCase())
}

/** The number of letters to insert, delete, or replace to turn one word into the other. */
function distance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, index) => index)
  for (let above = 0; above < from.length; above++) {
    const next = [above + 1]
    for (let index = 0; index < to.length; index++) {
      const change = (row[index] ?? 0) + (from[above] === to[index] ? 0 : 1)
      next.push(Math.min(change, (row[index + 1] ?? 0) + 1, (next[index] ?? 0) + 1))
    }
    row = next
  }
  return row[to.length] ?? 0
}

/** Whether a word differs by one typo or by case only, so that it is certainly not another word. */
export function isTypo(given: string, meant: string): boolean {
  const [word, right] = [given.toLowerCase(), meant.toLowerCase()]
  if (word === right) return true
  if (Math.abs(word.length - right.length) > 1) return false
  let same = 0
  while (same < word.length && word[same] === right[same]) same += 1
  const [rest, rightRest] = [word.slice(same), right.slice(same)]
  // One letter is missing: "wach".
  if (rest === rightRest.slice(1)) return true
  // One extra letter: "wattch", "onEvents". Other letters at the end make a different word: "closed".
  if (rest.slice(1) === rightRest) return rightRest !== '' || rest === 's' || rest === right.at(-1)
  // Two letters are swapped: "wacth".
  if (rest.slice(2) === rightRest.slice(2) && rest[0] === rightRest[1] && rest[1] === rightRest[0]) return true
  // One letter is wrong: "onEvemt". With short words this makes a different word: "patch", "clone".
  return right.length >= 7 && rest.slice(1) === rightRest.slice(1)
}
