import type { ExploreOptions } from '../../src/simulation/explore.ts'

/** How many states the exploration may look at before it must have found a mutant. */
export const mutantStates = 60_000

const polled: ExploreOptions = { watch: false, leaseTicks: 6 }
const watched: ExploreOptions = { leaseTicks: 6 }

/** The engine's mutants that `explore()` must find, by name, and in which circumstances. */
export const exploredMutants: { readonly [name: string]: ExploreOptions } = {
  'do not raise the term': { ...polled, faults: ['crash'] },
  'send renewals after belief ended': { ...polled, faults: ['stall'] },
  'end leadership by a flag that a timer clears': { ...polled, faults: ['stall'] },
  'release while work runs': { ...polled, faults: ['stop'] },
  'wind down before everything that listens to the end was called': { ...polled, faults: ['stop'] },
  'campaign while work of the last term runs': { ...polled, faults: ['stall'] },
  'release under work that did not settle in time': { ...polled, faults: ['step-down'] },
  'keep the timer of the version before': { ...watched, budget: 0 },
  'start the timer at a poll instead of at the first sight': { ...polled, faults: ['crash'] },
  'treat a vanished record as free': { ...polled, faults: ['deleted-record'] },
  'never notice that a record vanished': { ...polled, faults: ['deleted-record'] },
  'never raise afterTerm': { ...polled, faults: ['crash'] },
  'treat a refused renewal of the own record as a loss': { ...polled, faults: ['touched-record'] },
  'end leadership on one failed renewal': { ...polled, faults: ['failed'] },
  'leave no time for another renewal': { ...polled, faults: ['lost'] },
  "take an own renewal that was answered late for a clone's": { ...polled, faults: ['lost'] },
  'ignore drift': { ...polled, rates: [0.875, 1.125], faults: ['stall'] },
  'forget to close the watch': { ...watched, faults: ['stop'] },
  'count a grant from the reply': { ...polled, budget: 2, faults: ['stall'] },
  'drop the epoch guard': { ...polled, faults: ['late'] },
  'spin while a release is to be tried again': { ...polled, budget: 2, faults: ['failed', 'stop'] },
  'grant although a later term is known': { ...polled, budget: 2, faults: ['late', 'crash'] },
}
