import type { ConformanceScene, StoreUnderTest } from './scene.ts'

/** A capability that a case needs. The case is skipped for a store without it. */
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
  | 'successors'

/** One requirement of the contract. */
export interface Case {
  readonly name: string
  readonly needs?: readonly Need[]
  run(scene: ConformanceScene): Promise<void>
}

/** Returns why a case does not apply to a store, or undefined if it applies. */
export function unmetNeed({ needs = [] }: Case, under: StoreUnderTest): string | undefined {
  const { store } = under
  // A store that says that it keeps terms must prove it, even if its test says otherwise.
  const forgetsTerms = under.forgetsTerms === true && store.keepsTerms !== true
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
    'lasting-terms': !forgetsTerms,
    'terms-in-records': forgetsTerms,
    successors: !under.dropsSuccessors,
  }
  const reasons: Record<Need, string> = {
    terms: 'the store has no lasting terms',
    'own-clock': 'the store does not judge expiry itself',
    observed: 'the store judges expiry itself',
    watch: 'the store cannot watch',
    look: 'the store does not know the remaining time of a lease',
    list: 'the store cannot list',
    forget: 'the store cannot forget',
    remove: 'the test cannot remove a record',
    open: 'the test cannot open a second handle',
    'lasting-terms': 'the store loses the highest term with the record',
    'terms-in-records': 'the store keeps the highest term when the record is removed',
    successors: 'the store does not keep the successor of a release',
  }
  const missing = needs.find((need) => !met[need])
  return missing && reasons[missing]
}
