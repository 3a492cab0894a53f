import type { ActiveReplicas } from './active-replica.ts'

/**
 * The highest term of an active replica that this replica knows of, from its own election or from another replica. A
 * replica with a lower term is no longer active, even if it does not know that yet: a machine that was paused with all
 * its clocks would continue for a while.
 */
export class HighestTerm {
  readonly #places: ActiveReplicas
  readonly #onHigher: (term: number) => boolean
  #seen = 0

  /**
   * `onHigher` is called when another replica knows of a higher term. An active replica then stops. It returns whether
   * the term is accepted.
   */
  constructor(places: ActiveReplicas, onHigher: (term: number) => boolean) {
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

  /** Drops a term that belongs to no replica. */
  forget(term: number): void {
    if (this.#seen >= term) this.#seen = 0
  }
}
