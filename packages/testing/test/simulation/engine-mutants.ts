import type { SimulationOptions } from '../../src/simulation/index.ts'
import type { Mutation } from '../../../../test/mutants/mutant.ts'

/** A mutant of the engine, and the simulation options that reveal it. */
export interface EngineMutant extends Mutation {
  readonly in?: Omit<SimulationOptions, 'seed'>
}

const election = 'engine/election.ts'
const expiry = 'engine/observed-expiry.ts'

export const engineMutants: readonly EngineMutant[] = [
  {
    name: 'count a granted lease from the answer instead of the request',
    file: election,
    find: 'sentAtMs: attempt.firstSentAtMs,',
    replace: 'sentAtMs: heldNow(s),',
    in: { faults: ['slow-handover'] },
  },
  {
    name: 'count a renewed lease from the answer instead of the request',
    file: election,
    find: 'sentAtMs: flight.sentAtMs,',
    replace: 'sentAtMs: heldNow(s),',
  },
  {
    name: 'count a granted lease from the read that found it instead of the request',
    file: election,
    find: '    return claimGrant(s, effects, record, record.leaseDurationMs)',
    replace: `    s.attempt = { ...attempt, firstSentAtMs: heldNow(s) }
    return claimGrant(s, effects, record, record.leaseDurationMs)`,
  },
  {
    name: 'release the record that the store shows instead of its own grant',
    file: 'store-kit/rules.ts',
    find: '  const record = matching(current, claim)\n  if (!record)',
    replace: '  void claim\n  const record = current.record\n  if (!record)',
  },
  {
    name: 'do not raise the term',
    file: 'store-kit/rules.ts',
    find: 'const term = claim.afterTerm + 1',
    replace: 'const term = Math.max(1, claim.afterTerm)',
  },
  {
    name: 'use the same attempt again after a release',
    file: election,
    find: 's.attempt ??= newAttempt(s, effects.freshName())',
    replace: 's.attempt ??= newAttempt(s, s.own[0]?.id ?? effects.freshName())',
  },
  {
    name: 'grant the same attempt again after a release',
    file: 'store-kit/rules.ts',
    find: '  if (record?.attempt === claim.attempt) {',
    replace: '  if (record?.attempt === claim.attempt && !record.released) {',
    also: [
      {
        file: election,
        find: 's.attempt ??= newAttempt(s, effects.freshName())',
        replace: 's.attempt ??= newAttempt(s, s.own[0]?.id ?? effects.freshName())',
      },
    ],
  },
  {
    name: 'measure leases with the wall clock',
    file: 'engine/elector.ts',
    find: '    const clock = this.#clock\n    const nowMs = this.#clock.monotonicMs()',
    replace: '    const clock = this.#clock\n    const nowMs = this.#clock.wallMs()',
    also: [
      {
        file: 'engine/elector.ts',
        find: 'this.#clock.setTimer(atMs - nowMs, callback)',
        replace: 'this.#clock.setTimer(atMs - this.#clock.wallMs(), callback)',
      },
      {
        file: 'engine/elector.ts',
        find: '  #heldMs(): number {\n    const nowMs = this.#clock.monotonicMs()',
        replace: '  #heldMs(): number {\n    const nowMs = this.#clock.wallMs()',
      },
    ],
  },
  {
    name: 'treat a change of the wall clock as sleep',
    file: 'engine/sleep-meter.ts',
    find: 'const sleptMs = bootMs - nowMs - this.#bootAheadMs',
    replace: 'const sleptMs = 0 * bootMs + this.#sleptMs + Math.abs(wallMs - nowMs - this.#wallAheadMs)',
  },
  {
    name: 'do not count the time for which the machine sleeps',
    file: 'engine/sleep-meter.ts',
    find: '    this.#sleptMs = sleptMs\n',
    replace: '    void sleptMs\n',
  },
  {
    name: 'accept the answer to an abandoned call',
    file: election,
    find: '      if (flight?.id !== input.call) return',
    replace: '      if (!flight) return',
    also: [
      { file: 'engine/driver.ts', find: '    if (this.flight !== call) return false\n', replace: '' },
      { file: 'engine/elector.ts', find: 'if (reason) flight?.controller.abort(reason)', replace: 'void reason' },
    ],
    in: { faults: ['fading'] },
  },
  {
    name: 'send renewals after the belief has ended',
    file: election,
    find: "  if (s.phase === 'leading' && heldNow(s) >= deadlineOf(s)) endLeadership(s, effects, 'expired')",
    replace: '',
    also: [
      { file: election, find: 'if (!grant || heldNow(s) >= deadlineOf(s)) return', replace: 'if (!grant) return' },
    ],
  },
  {
    name: 'end leadership with a flag that a timer clears',
    file: 'engine/election-state.ts',
    find: "return state.phase === 'leading' && heldMs < deadlineOf(state)",
    replace: "return state.phase === 'leading' && heldMs < Infinity",
  },
  {
    name: 'abort the signal only when a timer fires',
    file: 'engine/leadership.ts',
    find: '      else answerByClock(this.#controller.signal, () => void this.isLeader())\n',
    replace: '',
    in: { faults: ['pause'] },
  },
  {
    name: 'release the lease while work runs',
    file: election,
    find: '      s.work = input.pending',
    replace: '      s.work = 0',
  },
  {
    name: 'run a round of work that the elector does not track',
    file: 'api/manager.ts',
    find: '    leadership.waitUntil(new Promise<void>((resolve) => (settle = resolve)))\n',
    replace: '',
  },
  {
    name: 'wind down before all listeners have been notified that leadership ended',
    file: election,
    find: 'function take(s: MutableState, effects: Effects, input: Input): void {\n',
    replace:
      'function take(s: MutableState, effects: Effects, input: Input): void {\n  if (s.ending) s.ending = { ...s.ending, told: true }\n',
    in: { faults: ['stop', 'step-down', 'pause'] },
  },
  {
    name: 'campaign while work of the previous term runs',
    file: election,
    find: '  if (s.work > 0 && s.nowMs < ending.drainUntilMs) return',
    replace: '  if (s.work > 0 && ending.voluntary && s.nowMs < ending.drainUntilMs) return',
    also: [
      {
        file: election,
        find: '  if (s.work > 0) return finishEnding(s, effects)\n',
        replace: '',
      },
      {
        file: election,
        find: "if (s.work > 0 && ending.next === 'campaign') return",
        replace: "if (s.work > 0 && ending.voluntary && ending.next === 'campaign') return",
      },
    ],
  },
  {
    name: 'release the lease although work did not settle in time',
    file: election,
    find: "  if (s.work > 0 && ending.next === 'campaign') return leaveToExpire(s, effects, ending)\n",
    replace: '',
    also: [{ file: election, find: '  if (s.work > 0) return finishEnding(s, effects)\n', replace: '' }],
    in: { faults: ['pause', 'stop', 'step-down', 'hang'] },
  },
  {
    name: 'keep the expiry timer of the previous version',
    file: expiry,
    find: 'seenAtMs: sight.atMs',
    replace: 'seenAtMs: view?.seenAtMs ?? nowMs',
  },
  {
    name: 'start the expiry timer at a poll instead of at the first observation',
    file: expiry,
    find: 'seenAtMs: sight.atMs',
    replace: 'seenAtMs: nowMs',
    in: { store: 'cas-polled', faults: ['crash'] },
  },
  {
    name: 'restart the expiry timer on a replayed version',
    file: expiry,
    find: "  if (firstSight(known, versionKey(record))) return 'replayed'\n",
    replace: '',
    also: [{ file: expiry, find: 'seenAtMs: sight.atMs', replace: 'seenAtMs: nowMs' }],
    in: { store: 'cas-watched', faults: ['crash'], replays: true },
  },
  {
    name: 'wait for less than the whole lease duration',
    file: expiry,
    find: 'return seenAtMs + holdsForMs\n',
    replace: 'return seenAtMs + holdsForMs * 0.9\n',
  },
  {
    name: 'wait for its own lease duration instead of the recorded one',
    file: expiry,
    find: 'const holdsForMs = validDuration(record.leaseDurationMs) ?? Math.max(ownDurationMs, noted.lastDurationMs)',
    replace: 'const holdsForMs = ownDurationMs',
  },
  {
    name: 'treat a missing record as free',
    file: expiry,
    find: 'const holdsForMs = absentForMs ?? Math.max(ownDurationMs, raised.lastDurationMs)',
    replace: 'const holdsForMs = 0 * (absentForMs ?? ownDurationMs)',
  },
  {
    name: 'never notice that a record is missing',
    file: election,
    find: 'else if (s.settings.terms && (s.highestTerm > 0 || s.view))',
    replace: 'else if (s.settings.terms && s.nowMs < 0)',
  },
  {
    name: 'grant a lease although a later term is known',
    file: 'store-kit/rules.ts',
    find: '  if (current.highestTerm > claim.afterTerm) return { answer: refused(current) }\n',
    replace: '',
  },
  {
    name: 'never raise afterTerm',
    file: election,
    find: '    afterTerm: s.highestTerm,\n    ...expired,',
    replace: '    afterTerm: 0,\n    ...expired,',
  },
  {
    name: 'read again before the compare-and-swap of a takeover',
    file: 'store-kit/rules.ts',
    find: 'if ((record?.version ?? absentVersion) === expiredVersion) return true',
    replace: 'if (expiredVersion !== undefined) return true',
  },
  {
    name: 'treat a refused renewal of its own record as a loss',
    file: election,
    find: '  } else if (own) {',
    replace: '  } else if (own && s.nowMs < 0) {',
  },
  {
    name: 'treat a refused renewal of its own record as an extension',
    file: election,
    find: 's.grant = { ...grant, record, adoptions, renewAtMs }',
    replace:
      's.grant = { ...grant, record, adoptions, sentAtMs: flight.sentAtMs, renewAtMs: flight.startedAtMs + settings.renewIntervalMs }',
  },
  {
    name: "treat a clone's write as its own write",
    file: election,
    find: '  return marked && ownOf(s, record) !== undefined && !hasOwnWriteId(s, record)\n',
    replace: '  return marked && s.nowMs < 0\n',
    in: { faults: ['clone'] },
  },
  {
    name: 'draw attempt ids from state that clones share',
    file: 'engine/elector.ts',
    find: 'fresh: () => clock.randomId(),',
    replace: 'fresh: () => `${this.identity}.${this.#state.calls}`,',
    in: { faults: ['clone', 'step-down'] },
  },
  {
    name: 'release the lease that a clone holds',
    file: election,
    find: ' && hasOwnWriteId(s, record)\n}\n\nfunction hasOwnWriteId',
    replace: ' && ownOf(s, record) !== undefined\n}\n\nfunction hasOwnWriteId',
    also: [{ file: election, find: '  s.own = s.own.filter(({ id }) => id !== record.attempt)\n', replace: '' }],
    in: { faults: ['clone'] },
  },
  {
    name: "treat its own renewal that was answered late as a clone's write",
    file: election,
    find: 'sent: append(own.sent, writeId, sentWriteIdsLimit)',
    replace: 'sent: [writeId]',
    in: { faults: ['lossy', 'deaf', 'errors'] },
  },
  {
    name: 'report a late grant of its own attempt as another leader',
    file: election,
    find: ' && !ownOf(s, record)) announce',
    replace: ') announce',
  },
  {
    name: 'ignore clock drift',
    file: 'engine/timings.ts',
    find: 'return (leaseDurationMs * (1 - driftRatio)) / (1 + driftRatio)',
    replace: 'return leaseDurationMs * (1 + 0 * driftRatio) * 1.05',
  },
  {
    name: 'end leadership on one failed renewal',
    file: election,
    find: 'failures >= settings.maxFailedRenewals &&',
    replace: 'failures >= 1 &&',
    in: { faults: ['errors', 'hang'] },
  },
  {
    name: 'stop campaigning after a loss',
    file: election,
    find: "if (ending.next === 'stop' || !goesOn) return enterStopped",
    replace: 'if (ending.term > 0) return enterStopped',
  },
  {
    name: 'spin while a release must be retried',
    file: 'engine/election-state.ts',
    find: '(s.ending?.voluntary && !releasing)',
    replace: 's.ending?.voluntary',
    in: { faults: ['errors', 'stop', 'step-down'] },
  },
  {
    name: 'forget to close the watch',
    file: election,
    find: "  if (s.watch === 'open') effects.push({ type: 'watch', open: false })\n  s.watch = 'closed'\n  s.phase = 'stopped'",
    replace: "  s.phase = 'stopped'",
  },
  {
    name: 'let one renewal use up the time for its retry',
    file: election,
    find: 'return Math.max(leftMs / 2, Math.min(leftMs - retryMs / 2, usualMs))',
    replace: 'return leftMs',
    in: { faults: ['lost-call'] },
  },
  {
    name: 'time out a renewal before its answer can arrive',
    file: election,
    find: 'return Math.max(leftMs / 2, Math.min(leftMs - retryMs / 2, usualMs))',
    replace: 'return retryMs',
    in: { slow: true, faults: [] },
  },
  {
    name: "time out a candidate's call before its answer can arrive",
    file: election,
    find: 'return Math.min(mostMs, Math.max(retryIntervalMs, leftMs))',
    replace: 'return Math.min(mostMs, leftMs, retryIntervalMs)',
    in: { slow: true, faults: [] },
  },
  {
    name: 'write a decision over a newer state than it was based on',
    file: 'store-kit/compare-and-swap-store.ts',
    find: 'await server.swap(election, over, verdict.write, left())',
    replace: 'await server.swap(election, await server.find(election, call), verdict.write, left())',
    in: { store: 'swap-watched' },
  },
  {
    name: 'keep the highest term only in the record',
    package: 'testing',
    file: 'simulation/simulated-swap.ts',
    find: '{ ...found(election), record: undefined }',
    replace: '{ ...nothing, record: undefined }',
    in: { store: 'swap-watched', faults: ['crash', 'stop', 'deleted-record'] },
  },
  {
    name: 'create a record without comparing the highest term',
    package: 'testing',
    file: 'simulation/simulated-swap.ts',
    find: ' && current.highestTerm === over.highestTerm',
    replace: '',
    in: { store: 'swap-watched', faults: ['lossy', 'deaf', 'hang', 'crash', 'stop', 'deleted-record'] },
  },
]
