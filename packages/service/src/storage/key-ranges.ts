import { afterKey, prefixEnd } from '@tenure/internal/etcd-keys'

/** A range of keys, without its end. */
export type ReadRange = readonly [from: string, end: string]

/** How many pages lie between two bounds. The page before a bound is often short, so there must be several. */
const pagesPerBound = 4
const maxBounds = 1_024
/** etcd accepts values of up to 1.5 MiB. */
const maxTextLength = 2 ** 18

/**
 * The ranges in which a load reads many keys of etcd, page by page.
 *
 * etcd walks all keys of a range regardless of the limit of the page, and accepts no write while it does so. One range
 * over a million keys takes it a quarter of a second on an idle core. On a busy machine, that can take longer than the
 * lease of the active replica. A replica that merely starts and loads its groups would then cost the active replica its
 * lease. So each load saves where its pages began, and the next load uses some of these keys as bounds between its
 * ranges. Where no bound is known, the range of the next page covers only keys that share a prefix with the last key
 * found, and the range after it is wider again.
 *
 * The ranges of a load are adjacent, without a gap, whatever was saved. What was saved only affects speed.
 */
export class KeyRanges {
  readonly #first: string
  readonly #end: string
  #bounds: readonly string[] = []
  #pages: string[] = []

  /** All keys are between `first`, which is the prefix of all of them, and `end`. */
  constructor(first: string, end: string) {
    this.#first = first
    this.#end = end
  }

  /** Returns the first range of a new load. `saved` is the text of an earlier load, or anything else. */
  begin(saved: string | undefined): ReadRange {
    this.#pages = []
    this.#bounds = namesIn(saved).map((name) => this.#first + name)
    return [this.#first, this.#bounds[0] ?? this.#end]
  }

  /**
   * Returns the range after a page with these keys, or undefined after the last one. `end` is the end of the page's range,
   * and `more` says whether there are more keys before it.
   */
  after(keys: readonly string[], more: boolean, end: string): ReadRange | undefined {
    const [first, last] = [keys[0], keys.at(-1)]
    if (first !== undefined) this.#pages.push(first)
    if (more && first !== undefined && last !== undefined) {
      const narrower = narrowerEnd(first, last) ?? end
      return [this.#after(last), narrower < end ? narrower : end]
    }
    if (end === this.#end) return undefined
    return [end, this.#bounds.find((bound) => bound > end) ?? this.#widerEnd(end)]
  }

  /** Continues after a key. Only the name is Tenure's own, and ASCII: the prefix of all keys may be any text. */
  #after(key: string): string {
    const name = key.slice(this.#first.length)
    // Names of Tenure come before all others.
    return isPlain(name.slice(0, 1)) ? this.#first + afterKey(name) : this.#end
  }

  #widerEnd(end: string): string {
    const wider = end.slice(0, -1)
    return wider.length > this.#first.length ? prefixEnd(wider) : this.#end
  }

  /** What the next load needs from this one, after the last page. Undefined if there were only a few pages. */
  get text(): string | undefined {
    const pages = this.#pages.map((key) => key.slice(this.#first.length))
    let step = Math.max(pagesPerBound, Math.ceil(pages.length / maxBounds))
    for (; step < pages.length; step *= 2) {
      const text = JSON.stringify(pages.filter((_, index) => index > 0 && index % step === 0))
      if (text.length <= maxTextLength) return text
    }
    return undefined
  }
}

/** Returns the saved names that can be bounds, in order. */
function namesIn(saved: string | undefined): readonly string[] {
  try {
    const names: unknown = JSON.parse(saved ?? '[]')
    if (!Array.isArray(names) || names.length > maxBounds) return []
    return names.filter((name) => typeof name === 'string' && isPlain(name)).toSorted() as string[]
  } catch {
    return []
  }
}

/** Returns whether this text has the same order here and in etcd. */
function isPlain(text: string): boolean {
  return /^[\x20-\x7e]+$/.test(text)
}

/**
 * Returns the end of the keys that share a prefix with the last key. That prefix is the common prefix of the first and
 * the last key, plus one character.
 */
function narrowerEnd(first: string, last: string): string | undefined {
  let shared = 0
  while (shared < last.length && first[shared] === last[shared]) shared += 1
  const prefix = last.slice(0, shared + 1)
  return isPlain(prefix) ? prefixEnd(prefix) : undefined
}
