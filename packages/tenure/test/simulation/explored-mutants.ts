import { storeMutations } from '../conformance/store-mutants.ts'
import type { ExploreOptions } from '../../src/simulation/explore.ts'
import type { Mutation } from '../../../../test/mutants/mutant.ts'
import { engineMutants } from './engine-mutants.ts'

/** How many states the exploration may look at before it must have found a mutant, where nothing else is said. */
export const mutantStates = 60_000

const election = 'election.ts'

/** Mistakes that no fleet is needed for: something never ends, or ends by itself. */
const endings: readonly Mutation[] = [
  {
    name: 'hang in the end of a term that somebody else took',
    file: election,
    find: '  if (ending.releaseUntilMs !== undefined) return releaseIfDue(s, effects)\n',
    replace:
      "  if (ending.releaseUntilMs !== undefined) return releaseIfDue(s, effects)\n  if (ending.reason === 'superseded') return\n",
  },
  {
    name: 'never stop a standby that was told to',
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
    name: 'give leadership up by itself',
    file: election,
    find: '    if (flight.carry === undefined) return\n',
    replace: "    if (flight.carry === undefined) return endLeadership(s, effects, 'released')\n",
  },
  {
    name: 'ask again and again in no time',
    file: election,
    find: 's.tryAtMs = Math.max(s.nowMs, Math.min(expiryMs, askMs))',
    replace: 's.tryAtMs = s.nowMs',
  },
]

/** The engine's mutants, and those of the rules that stores share. */
export const mutants: readonly Mutation[] = [
  ...engineMutants,
  ...endings,
  ...storeMutations.filter(({ file }) => file === 'stores/rules.ts'),
]

const polled: ExploreOptions = { watch: false, leaseTicks: 6 }
const watched: ExploreOptions = { leaseTicks: 6 }
const ownClock: ExploreOptions = { ...polled, expiry: 'own-clock' }

/** The mutants that `explore()` must find, by name, and in which circumstances. */
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
  'wait less than the whole duration': { ...polled, leaseTicks: 12, faults: ['stall'] },
  'treat a vanished record as free': { ...polled, faults: ['deleted-record'] },
  'never notice that a record vanished': { ...polled, faults: ['deleted-record'] },
  'never raise afterTerm': { ...polled, faults: ['crash'] },
  'treat a refused renewal of the own record as a loss': { ...polled, faults: ['touched-record'] },
  'treat a refused renewal of the own record as an extension': {
    ...ownClock,
    budget: 2,
    faults: ['touched-record', 'stall'],
  },
  'end leadership on one failed renewal': { ...polled, faults: ['failed'] },
  'leave no time for another renewal': { ...polled, faults: ['lost'] },
  "take an own renewal that was answered late for a clone's": { ...polled, faults: ['lost'] },
  'ignore drift': { ...polled, rates: [0.875, 1.125], faults: ['stall'] },
  'forget to close the watch': { ...watched, faults: ['stop'] },
  'count a grant from the reply': { ...polled, budget: 2, faults: ['stall'] },
  'count a renewal from the reply': { ...ownClock, budget: 2, faults: ['late', 'stall'], states: 200_000 },
  'count from the read that resolved an unknown outcome': { ...ownClock, budget: 2, faults: ['lost', 'stall'] },
  'drop the epoch guard': { ...polled, faults: ['late'] },
  'spin while a release is to be tried again': { ...polled, budget: 2, faults: ['failed', 'stop'] },
  'stop campaigning after a loss': { ...polled, faults: ['stall'] },
  'release whatever the record shows': { ...polled, budget: 2, faults: ['step-down', 'doubled'] },
  'use the same attempt again after a release': { ...polled, budget: 2, faults: ['step-down'], states: 200_000 },
  'grant the same attempt again after a release': { ...polled, faults: ['step-down'] },
  'grant although a later term is known': { ...polled, budget: 2, faults: ['late', 'crash'] },
  'read again before the compare-and-swap of a take-over': {
    ...polled,
    budget: 2,
    faults: ['late', 'stall'],
    states: 200_000,
  },
  'hang in the end of a term that somebody else took': { ...polled, faults: ['deleted-record'] },
  'never stop a standby that was told to': { ...polled, faults: ['stop'] },
  'stop without reporting a loss': { ...polled, budget: 2, faults: ['stop', 'stall'] },
  'give leadership up by itself': { ...polled, budget: 0 },
  'ask again and again in no time': { ...polled, budget: 0 },
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
  'a refusal has no record': { ...polled, faults: ['step-down', 'doubled'] },
}

const outside = 'It is outside the driver, which is given clocks, names and requests.'
const noClone = 'No process is copied here.'
const slow = 'It takes answers that all take longer than a retry: then there are too many states to see all.'
const twice = 'It is guarded twice: no elector of this engine sends such a claim, however late or often it arrives.'
const shown = 'No decision reads it.'
const oneLength = 'All leases are of one length here.'
const notForgotten = 'No elector forgets an election. People and tools do.'

/** Those that it does not find, and why that is no hole. The simulator or the conformance suite finds each. */
export const unexploredMutants: { readonly [name: string]: string } = {
  'trust the wall clock': outside,
  'take a wall clock that was set for a sleep': outside,
  'do not count sleep': outside,
  'leave the abort of the signal to a timer': outside,
  'run a round of which the elector knows nothing': outside,
  'write what was judged over what is there now': outside,
  'keep the highest term in the record only': outside,
  'create a record without comparing the highest term': outside,
  'draw attempts from what clones share': noClone,
  'take what a clone of this process wrote for an own write': noClone,
  'release the lease that a clone of this process holds': noClone,
  'report a late grant of the own as that of another leader': shown,
  'forget removes a held record': notForgotten,
  'forget ignores the version of the claim': notForgotten,
  'restart the timer on a replayed version': 'Each replay costs a lease at most: it takes many to keep everybody out.',
  'wait the own duration instead of the one in the record': oneLength,
  'cut a renewal shorter than answers take': slow,
  'cut a candidate’s call shorter than answers take': slow,
  'acquire grants terms beyond the safe integers': 'Terms count from the lowest that is known.',
  'acquire returns a released grant to its attempt': twice,
  'acquire grants a new term to a released attempt': twice,
  'acquire returns an expired grant to its attempt': 'Belief counts from the first sending, so it is over by then.',
  'acquire returns a grant to another holder with the same attempt': twice,
  'acquire refuses a repeated attempt': 'A candidate that is refused its own grant waits until it has run out.',
  'acquire ignores afterTerm in a takeover': 'No version returns, so whoever names one that is there knows its term.',
  'expiredVersion overrides the store’s own clock': 'Candidates wait for as long as the store does.',
  'a lease expires a moment early': 'It is less than a tick.',
  'a released record counts as held': 'It costs a lease: somebody leads within three all the same.',
  'a removed record counts as free in a store that judges expiry':
    'Candidates wait by themselves when a record vanished.',
  'a removed record counts as free when candidates judge expiry':
    'Candidates wait by themselves when a record vanished.',
  'a removed record of term 0 counts as free when candidates judge expiry': 'No other program begins with term 0 here.',
  'acquire drops the checkpoint': shown,
  'acquire drops the metadata': shown,
  'renew revives an expired lease': 'An answer after belief ended extends nothing: it costs time alone.',
  'renew and release are accepted with another holder': twice,
  'renew and release are accepted with another attempt': twice,
  'renew and release are accepted with a higher term': twice,
  'renew and release are accepted with a lower term': twice,
  'renew and release are accepted with another version': 'An old renewal of the same term extends the record alone.',
  'renew and release are accepted after a release': twice,
  'release overwrites the checkpoint': shown,
  'release drops the checkpoint': shown,
  'a renewal drops a checkpoint that it does not name': shown,
  'a renewal does not write the checkpoint': shown,
  'a renewal does not write an empty checkpoint': shown,
  'a renewal keeps the old duration': oneLength,
  'a renewal does not update renewedAt': shown,
  'a renewal keeps the write id of the grant': 'That mark is known as an own one too.',
  'a grant is valid for longer than requested': 'Nobody believes for longer than the record says.',
  'retryAfterMs is too long': 'It is less than a tick.',
  'a refusal has no retryAfterMs': 'Candidates wait by themselves then.',
  'retryAfterMs is not a number': 'It is read like one that is left out.',
  'a refusal has no ok field': 'What does not say yes is read as no.',
  'a refusal has no highest term': 'The record that it shows tells it, or the next one does.',
}
