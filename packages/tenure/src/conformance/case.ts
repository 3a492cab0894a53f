import type { Scene, StoreUnderTest } from './scene.ts'

/** What a case needs of the store; where it is missing, the case is skipped. */
export type Need =
  | 'terms'
  | 'own-clock'
  | 'observed'
  | 'watch'
  | 'look'
  | 'list'
  | 'forget'
  | 'remove'
  | 'open'
  | 'lasting-terms'
  | 'terms-in-records'

/** One promise of the port. */
export interface Case {
  readonly name: string
  readonly needs?: readonly Need[]
  run(scene: Scene): Promise<void>
}

/** Why a case does not apply to a store, or undefined if it does. */
export function unmetNeed({ needs = [] }: Case, under: StoreUnderTest): string | undefined {
  const { store } = under
  const met: Record<Need, boolean> = {
    terms: store.terms,
    'own-clock': store.expiry === 'own-clock',
    observed: store.expiry === 'observed',
    watch: store.watch !== undefined,
    look: store.look !== undefined,
    list: store.list !== undefined,
    forget: store.forget !== undefined,
    remove: under.remove !== undefined,
    open: under.open !== undefined,
    'lasting-terms': !under.forgetsTerms,
    'terms-in-records': under.forgetsTerms === true,
  }
  const reasons: Record<Need, string> = {
    terms: 'the store has no lasting terms',
    'own-clock': 'the store does not judge expiry itself',
    observed: 'the store judges expiry itself',
    watch: 'the store cannot watch',
    look: 'the store does not know what is left of a lease',
    list: 'the store cannot list',
    forget: 'the store cannot forget',
    remove: 'the test cannot remove a record',
    open: 'the test cannot open a second handle',
    'lasting-terms': 'the highest term goes with the record',
    'terms-in-records': 'the highest term outlives the record',
  }
  const missing = needs.find((need) => !met[need])
  return missing && reasons[missing]
}
