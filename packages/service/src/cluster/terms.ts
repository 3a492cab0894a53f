import type { Places } from './place.ts'

/**
 * The highest term of an active replica that this one knows of: from its own election, or from what another replica
 * sent. Whoever has a lower one is active no more, even where it does not know that yet: a machine that was paused with
 * all its clocks would go on for a while.
 */
export class Terms {
  readonly #places: Places
  readonly #onHigher: (term: number) => boolean
  #seen = 0

  /**
   * `onHigher` is called when another replica knows of a higher one: a replica that is active stops then. It says whether
   * that is believed.
   */
  constructor(places: Places, onHigher: (term: number) => boolean) {
    this.#places = places
    this.#onHigher = onHigher
  }

  get highest(): number {
    const place = this.#places.now()
    return place.kind === 'nowhere' ? this.#seen : Math.max(this.#seen, place.term)
  }

  saw(term: number): void {
    if (term <= this.highest) return
    if (this.#onHigher(term)) this.#seen = term
  }

  /** It was nobody's. */
  forget(term: number): void {
    if (this.#seen >= term) this.#seen = 0
  }
}
