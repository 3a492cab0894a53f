import type { Mutation } from '../../../../../test/mutants/mutant.ts'

/** A mutant of the code around the election algorithm, and the check that must catch it. */
export interface ElectorMutation extends Mutation {
  readonly caughtBy: string
}

/** The checks must catch every one of these mutants. */
export const electorMutations: readonly ElectorMutation[] = [
  {
    name: 'a campaign begins in the same turn of the event loop in which leadership ended',
    file: 'engine/elector.ts',
    find: "const isNext = this.#hasExpired && this.#state.phase === 'standby'",
    replace: "const isNext = this.#hasExpired && this.#state.phase === 'idle'",
    caughtBy: 'lead wins again only after other timers had a turn',
  },
  {
    name: 'signal.aborted returns a flag that only a timer sets',
    file: 'engine/leadership.ts',
    find: '      else answerByClock(this.#controller.signal, () => void this.isLeader())\n',
    replace: '',
    caughtBy: 'after a stall signal.aborted reports the end, and abort listeners run at once',
  },
  {
    name: 'throwIfAborted() checks a flag that only a timer sets',
    file: 'engine/clock-signal.ts',
    find: '        look()\n        prototype',
    replace: '        prototype',
    caughtBy: "after a stall throwIfAborted() and throwIfLost() throw the signal's reason",
  },
  {
    name: 'isLeader() leaves aborting the signal to a timer',
    file: 'engine/elector.ts',
    find: "    if (this.#state.phase === 'leading') this.#endOverdue()\n",
    replace: '',
    caughtBy: 'after a stall isLeader() reports the end, and abort listeners run at once',
  },
  {
    name: 'a query from an observer leaves aborting the signal to a later step',
    file: 'engine/elector.ts',
    find: "    this.#leadership?.end('expired')\n",
    replace: '',
    caughtBy: 'a query from an observer aborts the signal before it returns, and the loss is reported afterwards',
  },
  {
    name: 'the default identity does not name the process',
    file: 'engine/elector.ts',
    find: 'options.identity ?? processName(this.#clock.randomId())',
    replace: 'options.identity ?? this.#clock.randomId()',
    caughtBy: 'the default identity names the host and the process, and differs between electors of one process',
  },
  {
    name: 'rounding of boot time counts as sleep',
    file: 'engine/sleep-meter.ts',
    find: 'if (sleptMs - this.#sleptMs < shortestSleepMs) return',
    replace: 'if (sleptMs - this.#sleptMs <= 0) return',
    caughtBy: 'rounded boot time does not shorten a lease',
  },
  {
    name: 'rounding wakes an elector before anything is due',
    file: 'engine/election-state.ts',
    find: 'return atMs + sleptMs < heldMs ? atMs + finestMs : atMs',
    replace: 'return atMs',
    caughtBy: 'time advances after the machine slept for a fractional number of milliseconds',
  },
  {
    name: 'an attempt is abandoned before the store has answered',
    file: 'engine/election.ts',
    find: '  if (s.nowMs < s.cooldownUntilMs) s.attempt = undefined\n  if (flight',
    replace:
      '  if (s.nowMs < s.cooldownUntilMs || (s.attempt && isOld(s, s.attempt))) s.attempt = undefined\n  if (flight',
    caughtBy: 'an outage leaves a single attempt with an unknown outcome',
  },
  {
    name: 'an attempt that was abandoned is forgotten',
    file: 'engine/election.ts',
    find: 's.own = append(s.own, { id, seen: [], sent: [id] }, ownLimit)',
    replace: 's.own = [{ id, seen: [], sent: [id] }]',
    caughtBy: 'a late grant is released even when another attempt has begun since',
  },
  {
    name: 'a standby that steps down keeps an attempt with an unknown outcome',
    file: 'engine/election.ts',
    find: '  if (!s.flight) s.attempt = undefined\n',
    replace: '',
    caughtBy: 'a standby that steps down releases a late grant of an attempt with an unknown outcome',
  },
  {
    name: 'a leadership that has ended steps down in a later term',
    file: 'engine/elector.ts',
    find: 'if (leadership.isLeader()) this.#elector.#dispatch(input)',
    replace: 'if (leadership.term > 0) this.#elector.#dispatch(input)',
    caughtBy: 'stepDown of a leadership that has ended does not end a later one',
  },
  {
    name: 'BUSY always waits for a renewal',
    file: 'engine/election.ts',
    find: ' || wasJustRenewed(record, effects.wallMs())) giveUp',
    replace: ') giveUp',
    caughtBy: 'one call is enough for BUSY when the leader renewed within its lease by the wall clock',
  },
  {
    name: 'a renewal in the future counts as recent',
    file: 'engine/election.ts',
    find: 'return ageMs >= 0 && ageMs < leaseDurationMs',
    replace: 'return ageMs < leaseDurationMs',
    caughtBy: 'a candidate leads after a crash of the leader whose wall clock is an hour ahead',
  },
  {
    name: 'a renewal counts as recent forever',
    file: 'engine/election.ts',
    find: 'return ageMs >= 0 && ageMs < leaseDurationMs',
    replace: 'return ageMs >= 0 && leaseDurationMs > 0',
    caughtBy: 'a crashed leader counts as alive for one lease and is then replaced',
  },
  {
    name: 'a lease that is over by the wall clock is taken over',
    file: 'engine/election.ts',
    find: 'if (retryAfterMs > 0 || isWrittenSince || wasJustRenewed(record, effects.wallMs())) giveUp(s, effects, { record })',
    replace:
      'if (retryAfterMs > 0 || isWrittenSince || wasJustRenewed(record, effects.wallMs())) giveUp(s, effects, { record })\n  else if (s.view) s.view = { ...s.view, holdsForMs: 0 }',
    caughtBy: 'a candidate whose wall clock is an hour ahead does not lead before the lease of the leader expires',
  },
  {
    name: 'an elector with waitMs gives up at the first sign of a leader',
    file: 'engine/election.ts',
    find: "settings.until === 'busy' ? contendsSinceMs + settings.waitMs : Infinity",
    replace: "settings.until === 'busy' ? contendsSinceMs : Infinity",
    caughtBy: 'an elector with waitMs asks the store when waitMs has passed, and not more often before that',
  },
  {
    name: 'a candidate that stays out wakes again and again once its waitMs has passed',
    file: 'engine/election.ts',
    find: 'givesUpIfBusy(s) ? Infinity : givesUpFromMs(s))',
    replace: 'givesUpFromMs(s))',
    caughtBy: 'an elector whose waitMs has passed sleeps while it leaves a released lease to a higher priority',
  },
  {
    name: 'an elector with waitMs does not ask the store when waitMs has passed',
    file: 'engine/election.ts',
    find: '  if (!givesUpIfBusy(s)) s.tryAtMs = Math.min(s.tryAtMs, givesUpFromMs(s))\n',
    replace: '',
    caughtBy: 'an elector with waitMs asks the store when waitMs has passed, and not more often before that',
  },
]
