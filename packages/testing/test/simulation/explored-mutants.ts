import { storeMutations } from '../conformance/store-mutants.ts'
import type { ExploreOptions } from '../../src/simulation/explore.ts'
import type { Mutation } from '../../../../test/mutants/mutant.ts'
import { engineMutants } from './engine-mutants.ts'

/** The default limit of states within which the model checker must detect a mutant. */
export const mutantStates = 60_000

const election = 'engine/election.ts'

/** Mutants that need no fleet, because something never ends, or ends without a cause. */
const endings: readonly Mutation[] = [
  {
    name: 'never finish ending a term that another candidate took over',
    file: election,
    find: '  if (ending.releaseUntilMs !== undefined) return releaseIfDue(s, effects)\n',
    replace:
      "  if (ending.releaseUntilMs !== undefined) return releaseIfDue(s, effects)\n  if (ending.reason === 'superseded') return\n",
  },
  {
    name: 'never stop a standby that was told to stop',
    file: election,
    find: '  if (s.stopUntilMs !== undefined) return finishStop(s, effects, s.stopUntilMs)\n',
    replace: '  if (s.stopUntilMs !== undefined) return\n',
  },
  {
    name: 'stop without reporting a loss',
    file: election,
    find: "  effects.push({ type: 'lost', term: ending.term, reason: ending.reason })\n",
    replace:
      "  if (ending.next !== 'stop' || ending.voluntary) effects.push({ type: 'lost', term: ending.term, reason: ending.reason })\n",
  },
  {
    name: 'step down without a cause',
    file: election,
    find: '    if (flight.checkpoint === undefined) return\n',
    replace: "    if (flight.checkpoint === undefined) return endLeadership(s, effects, 'released')\n",
  },
  {
    name: 'retry without a delay',
    file: election,
    find: 's.tryAtMs = Math.max(s.nowMs, Math.min(expiryMs, askMs))',
    replace: 's.tryAtMs = s.nowMs',
  },
]

/** The engine's mutants, and those of the rules that all stores share. */
export const mutants: readonly Mutation[] = [
  ...engineMutants,
  ...endings,
  ...storeMutations.filter(({ file }) => file === 'store-kit/rules.ts'),
]

const polled: ExploreOptions = { watch: false, leaseTicks: 6 }
const watched: ExploreOptions = { leaseTicks: 6 }
const ownClock: ExploreOptions = { ...polled, expiry: 'own-clock' }

/** The mutants that `explore()` must detect, by name, with the options that reveal them. */
export const exploredMutants: { readonly [name: string]: ExploreOptions } = {
  'do not raise the term': { ...polled, faults: ['crash'] },
  'send renewals after the belief has ended': { ...polled, faults: ['stall'] },
  'end leadership with a flag that a timer clears': { ...polled, faults: ['stall'] },
  'release the lease while work runs': { ...polled, faults: ['stop'] },
  'wind down before all listeners have been notified that leadership ended': { ...polled, faults: ['stop'] },
  'campaign while work of the previous term runs': { ...polled, faults: ['stall'] },
  'release the lease although work did not settle in time': { ...polled, faults: ['step-down'] },
  'keep the expiry timer of the previous version': { ...watched, budget: 0 },
  'start the expiry timer at a poll instead of at the first observation': { ...polled, faults: ['crash'] },
  'wait for less than the whole lease duration': { ...polled, leaseTicks: 12, faults: ['stall'] },
  'treat a missing record as free': { ...polled, faults: ['deleted-record'] },
  'never notice that a record is missing': { ...polled, faults: ['deleted-record'] },
  'never raise afterTerm': { ...polled, faults: ['crash'] },
  'treat a refused renewal of its own record as a loss': { ...polled, faults: ['touched-record'] },
  'treat a refused renewal of its own record as an extension': {
    ...ownClock,
    budget: 2,
    faults: ['touched-record', 'stall'],
  },
  'end leadership on one failed renewal': { ...polled, faults: ['failed'] },
  'let one renewal use up the time for its retry': { ...polled, faults: ['lost'] },
  "treat its own renewal that was answered late as a clone's write": { ...polled, faults: ['lost'] },
  'ignore clock drift': { ...polled, rates: [0.875, 1.125], faults: ['stall'] },
  'forget to close the watch': { ...watched, faults: ['stop'] },
  'count a granted lease from the answer instead of the request': { ...polled, budget: 2, faults: ['stall'] },
  'count a renewed lease from the answer instead of the request': {
    ...ownClock,
    budget: 2,
    faults: ['late', 'stall'],
    states: 200_000,
  },
  'count a granted lease from the read that found it instead of the request': {
    ...ownClock,
    budget: 2,
    faults: ['lost', 'stall'],
  },
  'accept the answer to an abandoned call': { ...polled, faults: ['late'] },
  'spin while a release must be retried': { ...polled, budget: 2, faults: ['failed', 'stop'] },
  'stop campaigning after a loss': { ...polled, faults: ['stall'] },
  'release the record that the store shows instead of its own grant': {
    ...polled,
    budget: 2,
    faults: ['step-down', 'doubled'],
  },
  'use the same attempt again after a release': { ...polled, budget: 2, faults: ['step-down'], states: 200_000 },
  'grant the same attempt again after a release': { ...polled, faults: ['step-down'] },
  'grant a lease although a later term is known': { ...polled, budget: 2, faults: ['late', 'crash'] },
  'read again before the compare-and-swap of a takeover': {
    ...polled,
    budget: 2,
    faults: ['late', 'stall'],
    states: 200_000,
  },
  'never finish ending a term that another candidate took over': { ...polled, faults: ['deleted-record'] },
  'never stop a standby that was told to stop': { ...polled, faults: ['stop'] },
  'stop without reporting a loss': { ...polled, budget: 2, faults: ['stop', 'stall'] },
  'step down without a cause': { ...polled, budget: 0 },
  'retry without a delay': { ...polled, budget: 0 },
  'acquire does not raise the term': { ...polled, faults: ['crash'] },
  'acquire returns a grant to any attempt of its holder': { ...ownClock, faults: ['stall', 'doubled'] },
  'a repeated attempt extends its lease in the memory store': { ...polled, faults: ['doubled'] },
  'a repeated attempt extends its lease in the cas store': { ...polled, faults: ['doubled'] },
  'acquire ignores afterTerm': { ...polled, budget: 2, faults: ['step-down'] },
  'acquire ignores expiredVersion': { ...polled, faults: ['crash', 'stall'] },
  'acquire accepts any expiredVersion': { ...polled, faults: ['crash', 'stall'] },
  'acquire takes over a held lease without expiredVersion': { ...polled, faults: ['crash', 'stall'] },
  'a lease never expires': { ...ownClock, faults: ['crash'] },
  'release accepts any claim': { ...polled, budget: 2, faults: ['step-down', 'doubled'] },
  'release writes nothing': { ...polled, faults: ['step-down'] },
  'acquire keeps the successor of the last release': { ...polled, faults: ['hand-over'] },
  'a refusal has no record': { ...polled, faults: ['step-down', 'doubled'] },
}

const outside = 'The mutant is outside the driver, in its clocks, names, or requests.'
const noClone = 'The model has no clones.'
const slow =
  'The mutant needs answers that all take longer than a retry. The model then has too many states to explore.'
const twice =
  'Two rules guard against this: no elector of this engine sends such a claim, however late or often it arrives.'
const shown = 'No decision reads this field.'
const oneLength = 'All leases in the model have the same duration.'
const notForgotten = 'No elector calls forget. Only people and tools do.'

/**
 * The mutants that the model checker does not detect, and why that leaves no gap. The simulator or the conformance
 * suite detects each.
 */
export const unexploredMutants: { readonly [name: string]: string } = {
  'measure leases with the wall clock': outside,
  'treat a change of the wall clock as sleep': outside,
  'do not count the time for which the machine sleeps': outside,
  'abort the signal only when a timer fires': outside,
  'run a round of work that the elector does not track': outside,
  'write a decision over a newer state than it was based on': outside,
  'keep the highest term only in the record': outside,
  'create a record without comparing the highest term': outside,
  'draw attempt ids from state that clones share': noClone,
  "treat a clone's write as its own write": noClone,
  'release the lease that a clone holds': noClone,
  'report a late grant of its own attempt as another leader': shown,
  'forget removes a held record': notForgotten,
  'forget ignores the version of the claim': notForgotten,
  'restart the expiry timer on a replayed version':
    'Each replay costs at most one lease, so it takes many replays to prevent a leader.',
  'wait for its own lease duration instead of the recorded one': oneLength,
  'time out a renewal before its answer can arrive': slow,
  "time out a candidate's call before its answer can arrive": slow,
  'acquire grants terms beyond the safe integers': 'Terms in the model count from the lowest known term.',
  'acquire with a released attempt returns its grant again': twice,
  'acquire grants a new term to a released attempt': twice,
  'acquire with an expired attempt returns its grant again':
    'Belief counts from the first transmission, so it has already ended.',
  'acquire returns a grant to another holder with the same attempt': twice,
  'acquire refuses a repeated attempt': 'A candidate whose own grant is refused waits until that grant has expired.',
  'acquire ignores afterTerm in a takeover':
    'No version is reused, so a candidate that names the current version knows its term.',
  'expiredVersion overrides the store’s own clock': 'Candidates wait for as long as the store does.',
  'a lease expires a moment early': 'The error is smaller than a tick.',
  'a released record counts as held': 'It costs one lease, and a candidate still leads within three.',
  'a removed record counts as free in a store that judges expiry':
    'Candidates wait on their own when a record is missing.',
  'a removed record counts as free when candidates judge expiry':
    'Candidates wait on their own when a record is missing.',
  'a removed record of term 0 counts as free when candidates judge expiry':
    'No other program starts with term 0 in the model.',
  'acquire drops the checkpoint': shown,
  'acquire drops the metadata': shown,
  'renew revives an expired lease': 'An answer after the belief ended extends nothing, so it only costs time.',
  'renew and release are accepted with another holder': twice,
  'renew and release are accepted with another attempt': twice,
  'renew and release are accepted with a higher term': twice,
  'renew and release are accepted with a lower term': twice,
  'renew and release are accepted with another version': 'An old renewal of the same term only extends the record.',
  'renew and release are accepted after a release': twice,
  'release overwrites the checkpoint': shown,
  'release drops the checkpoint': shown,
  'release drops the successor': 'Only the preference is lost: the next leader is another candidate.',
  'a renewal drops a checkpoint that it does not name': shown,
  'a renewal does not write the checkpoint': shown,
  'a renewal does not write an empty checkpoint': shown,
  'a renewal keeps the old duration': oneLength,
  'a renewal does not update renewedAt': shown,
  'a renewal keeps the write id of the grant': 'The elector knows that write id as its own too.',
  'a grant is valid for longer than requested': 'No elector believes for longer than the record says.',
  'retryAfterMs is too long': 'The error is smaller than a tick.',
  'a refusal has no retryAfterMs': 'Candidates wait on their own.',
  'retryAfterMs is not a number': 'Electors treat it as missing.',
  'a refusal has no ok field': 'Electors treat everything but true as a refusal.',
  'a refusal has no highest term': 'The record in the refusal, or the next record, contains the term.',
}
