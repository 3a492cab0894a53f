import type { Mutation } from '../../../../../test/mutants/mutant.ts'

/** A mutant of the presence of members, and the check that must catch it. */
export interface PresenceMutation extends Mutation {
  readonly caughtBy: string
}

/** The checks must catch every one of these mutants. */
export const presenceMutations: readonly PresenceMutation[] = [
  {
    name: 'a process takes a seat that is held, because every version counts as expired when it is first seen',
    file: 'engine/members/seats.ts',
    find: '{ ...observed.view, retryAtMs,',
    replace: '{ ...observed.view, holdsForMs: 0, retryAtMs,',
    caughtBy: 'members() lists the leader and the standbys, with what they offer (compare-and-swap store)',
  },
  {
    name: 'a process tries to acquire seats that are held',
    file: 'engine/members/seats.ts',
    find: 'if (!view || view.record?.released) return false',
    replace: 'if (!view || view.record) return false',
    caughtBy: 'a process reads the seats up to the first free one, and acquires only that one (memory store)',
  },
  {
    name: 'a process acquires a seat with a stale view: the time of an earlier version counts for a newer one',
    file: 'engine/members/seats.ts',
    find: '{ ...observed.view, retryAtMs,',
    replace: '{ ...observed.view, seenAtMs: known.view?.seenAtMs ?? observed.view.seenAtMs, retryAtMs,',
    caughtBy:
      'a process without a seat reports SEATS_EXHAUSTED once, contends as before, and takes a seat later (compare-and-swap store)',
  },
  {
    name: 'a process acquires a seat without the term that it has read',
    file: 'engine/members/presence.ts',
    find: 'elector.tryOnce(this.#seats[seat] ?? unknownSeat)',
    replace: 'elector.tryOnce(unknownSeat)',
    caughtBy: 'a process reads the seats up to the first free one, and acquires only that one (compare-and-swap store)',
  },
  {
    name: 'a campaign drops what was observed before it started',
    file: 'engine/election.ts',
    find: '      if (input.known) Object.assign(s, input.known)\n',
    replace: '',
    caughtBy: 'the seat of a crashed process is taken after its lease, and not before (compare-and-swap store)',
  },
  {
    name: 'members() shows a released seat as a member',
    file: 'engine/members/members.ts',
    find: 'if (!record || !isTaken(known, nowMs)) return []',
    replace: 'if (!record) return []',
    caughtBy: 'a released seat has no member, and the next process takes it (memory store)',
  },
  {
    name: 'members() shows a member as live because of the first read',
    file: 'engine/members/members.ts',
    find: 'firstKey: isFirst ? key : undefined,',
    replace: 'firstKey: undefined,',
    caughtBy: 'members() with observeMs of one lease leaves out a process that crashed (compare-and-swap store)',
  },
  {
    name: 'members() does not look again at members that it saw early',
    file: 'engine/members/members.ts',
    find: '  if (observeMs > 0) await observer.look()\n',
    replace: '',
    caughtBy:
      'members() keeps a live member while it observes the longer lease of a process that crashed (compare-and-swap store)',
  },
  {
    name: 'a report counts for the next member of the same seat',
    file: 'engine/members/member-record.ts',
    find: "if (!isObject(report) || Reflect.get(report, 'attempt') !== attempt) return initialReport",
    replace: 'if (!isObject(report)) return initialReport',
    caughtBy: 'a report ends with its member and is written only when it changes (memory store)',
  },
  {
    name: 'every change of a report brings a renewal forward',
    file: 'engine/members/presence.ts',
    find: 'if (waitMs > 0) {',
    replace: 'if (waitMs > Infinity) {',
    caughtBy: 'a report ends with its member and is written only when it changes (memory store)',
  },
  {
    name: 'a member does not report that it is not eligible',
    file: 'engine/elector.ts',
    find: '    this.#presence?.report({ eligible: this.#state.preference.eligible })\n',
    replace: '',
    caughtBy: 'a report ends with its member and is written only when it changes (memory store)',
  },
  {
    name: 'each survey reports that all seats are taken',
    file: 'engine/members/presence.ts',
    find: '    if (this.#problems.has(error.code)) return\n',
    replace: '',
    caughtBy:
      'a process without a seat reports SEATS_EXHAUSTED once, contends as before, and takes a seat later (memory store)',
  },
  {
    name: 'seats count as exhausted although their leases may have expired',
    file: 'engine/members/presence.ts',
    find: '    if (nowMs - this.#exhaustedSinceMs < leaseDurationMs) return\n',
    replace: '',
    caughtBy:
      'a process that finds every seat expired takes one after one lease and reports nothing (compare-and-swap store)',
  },
  {
    name: 'stop() does not wait for the release of the seat',
    file: 'engine/elector.ts',
    find: 'if (this.#presence) void this.#presence.stop().finally(() => this.#stopped?.resolve())\n    else this.#stopped?.resolve()',
    replace: 'void this.#presence?.stop()\n    this.#stopped?.resolve()',
    // A memory store would release the seat before anyone could notice.
    caughtBy: 'stop() releases the seat after the lease of the election (compare-and-swap store)',
  },
  {
    name: 'stop() releases the seat first',
    file: 'engine/elector.ts',
    find: "      this.#dispatch({ type: 'stop' })\n",
    replace: "      void this.#presence?.stop()\n      this.#dispatch({ type: 'stop' })\n",
    caughtBy: 'stop() releases the seat after the lease of the election (memory store)',
  },
  {
    name: 'a process that lost its seat does not take another one',
    file: 'engine/members/presence.ts',
    find: '      await this.#keep()\n      return this.#retryIntervalMs\n',
    replace: '      await this.#keep()\n      this.#end.abort()\n      return 0\n',
    caughtBy: 'a stalled process that lost its seat comes back as another member (memory store)',
  },
  {
    name: 'a released seat proves that its last member is present',
    file: 'engine/members/members.ts',
    find: 'if (!view?.record || !isTaken(known, nowMs)) return []',
    replace: 'if (!view?.record) return []',
    caughtBy: 'a newer generation that left does not delay an older one (memory store)',
  },
  {
    name: 'a newer generation counts forever',
    file: 'engine/preference.ts',
    find: 'return newer && nowMs < newer.untilMs ? newer : undefined',
    replace: 'return newer',
    caughtBy: 'a newer generation stops counting when its seat expires, even if no seat can be read (memory store)',
  },
  {
    name: 'a newer generation is ignored',
    file: 'engine/preference.ts',
    find: '(newerGenerationOf(s) ? 1 : 0)',
    replace: '0',
    caughtBy: 'a rolling update with generations changes leaders about once (memory store)',
  },
  {
    name: 'a leader hands over to a candidate that is not eligible',
    file: 'engine/members/present-members.ts',
    find: 'if (member?.live && member.eligible) return to',
    replace: 'if (member?.live) return to',
    caughtBy: 'a leader does not hand over to a candidate that is absent or not eligible (memory store)',
  },
  {
    name: 'a leader hands over to a candidate that is not present',
    file: 'engine/members/present-members.ts',
    find: 'if (member?.live && member.eligible) return to',
    replace: 'if (!member || (member.live && member.eligible)) return to',
    caughtBy: 'a leader does not hand over to a candidate that is absent or not eligible (memory store)',
  },
  {
    name: 'members() lists a request as a member',
    file: 'engine/members/members.ts',
    find: '      if (!isMember(offer)) return []\n',
    replace: '',
    caughtBy: 'a leader does not hand over to a candidate that is absent or not eligible (memory store)',
  },
  {
    name: 'a leader follows a request that outlived the term it was for',
    file: 'engine/members/present-members.ts',
    find: ' || ofTerm !== term) continue',
    replace: ') continue',
    caughtBy: 'a leader does not follow a request for an earlier term (compare-and-swap store)',
  },
  {
    name: 'a leader hands over to a candidate whose renewals it has not observed',
    file: 'engine/members/present-members.ts',
    find: 'if (member?.live && member.eligible) return to',
    replace: 'if (member?.eligible) return to',
    caughtBy: 'a leader does not hand over to a candidate that crashed before its term (compare-and-swap store)',
  },
  {
    name: 'a renewal counts as observed although nobody looked for a whole lease',
    file: 'engine/members/members.ts',
    find: ' || before.firstKey === key || isOld',
    replace: ' || before.firstKey === key',
    caughtBy: 'a leader does not hand over to a candidate that crashed since its earlier term (compare-and-swap store)',
  },
  {
    name: 'a leader does not read behind expired seats, although newcomers skip them',
    file: 'engine/members/members.ts',
    find: '(seat) => seat && isInUse(seat)',
    replace: '(seat) => seat && isTaken(seat.known, this.#read.clock.monotonicMs())',
    caughtBy: 'a leader reads a request behind the seats of crashed processes (compare-and-swap store)',
  },
  {
    name: 'a leader follows a request for a name that no candidate can have',
    file: 'engine/members/member-record.ts',
    find: 'handOverTo: isName(handOverTo) ?',
    replace: "handOverTo: typeof handOverTo === 'string' ?",
    caughtBy: 'a leader ignores a request for a name that no candidate can have (memory store)',
  },
  {
    name: 'a seat whose record is invalid hides all others',
    file: 'engine/members/read-lease.ts',
    find: "if (isTenureError(error) && error.code === 'RECORD_INVALID') return undefined",
    replace: '',
    caughtBy: 'a seat whose record is invalid counts as taken and does not hide the others (memory store)',
  },
  {
    name: 'a leader does not read behind seats whose records are invalid',
    file: 'engine/members/members.ts',
    find: 'return !isValid || (view',
    replace: 'return (view',
    caughtBy: 'a seat whose record is invalid counts as taken and does not hide the others (memory store)',
  },
  {
    name: 'a process leaves the seat of an acquire whose answer was lost to expire',
    file: 'engine/election.ts',
    find: "if (s.settings.until === 'refused' && s.stopUntilMs === undefined) return giveUp(s, effects, { error })",
    replace: "if (s.settings.until === 'refused') giveUp(s, effects, { error })",
    caughtBy: 'a process releases the seat that it was granted in an answer that was lost (compare-and-swap store)',
  },
]
