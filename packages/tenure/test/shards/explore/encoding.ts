/**
 * Encodes states as bytes. States with the same bytes behave alike, so they are one state:
 *
 * - Names (attempts and versions) are numbered in the order in which they appear. Rules compare them only for equality.
 * - Processes are sorted by their role. They are interchangeable: nothing in the model depends on their order.
 * - Terms and epochs are replaced by their ranks. Rules compare them only with each other. See {@link ranked}.
 * - What no rule reads any more is left out. Each place below says why.
 *
 * The functions that read bytes build complete states, so a new field of the rules does not compile until it is here.
 * Random walks merge nothing, so they would find a violation that merging hides.
 */
import {
  namedMembers,
  termOf,
  type Assignment,
  type OwnershipReport,
  type ShardState,
} from '../../../src/shards/assignment.ts'
import type { CoordinatorState } from '../../../src/shards/coordinator.ts'
import type { Recovery } from '../../../src/shards/recovery.ts'
import type { SeatRecord, SeatView } from '../../../src/shards/seats.ts'
import type { MemberState } from '../../../src/shards/shard-member.ts'
import { coordinatorSettings } from './process.ts'
import {
  downProcess,
  settingsOf,
  type ModelAnswer,
  type ModelCall,
  type ModelCoordinator,
  type ModelElection,
} from './scene.ts'
import type { ModelProcess, ModelRecord, ShardScene, ShardSetup } from './scene.ts'

const lives = ['down', 'stalled', 'up'] as const
const phases = ['joined', 'leaving', 'closing', 'left'] as const
const recoveryPhases = ['read', 'write', 'reread', 'wait', 'free'] as const
const verbs = [
  'take-seat',
  'read',
  'renew',
  'release',
  'free-seat',
  'take-group',
  'write',
  'read-seat',
  'clean-seat',
] as const
const doneNames = [...verbs, 'no-answer']
/** A version that the store has replaced. It never matches again, so it does not matter which one it was. */
const staleVersion = '-'
const [noName, staleName, absentName] = [255, 254, 253]

/** Where terms are forgotten, how far apart two terms, or two changes of a term, can be. See {@link ranked}. */
const [termGap, changeGap] = [3, 2]

/** Returns the order in which the processes of a state are encoded. */
export function orderOf({ processes }: ShardScene): readonly number[] {
  const keys = processes.map(({ life, member, coordinator, mustRelease, inbox }) => {
    const seat = member.member?.seat ?? 7
    const flags = (coordinator === 0 ? 0 : 4) + (mustRelease ? 2 : 0) + (inbox === 0 ? 0 : 1)
    return ((lives.indexOf(life) * 8 + seat) * 8 + flags) * 4 + member.work.length
  })
  return [...processes.keys()].toSorted((one, other) => (keys[other] ?? 0) - (keys[one] ?? 0))
}

/** Encodes a state. The next call overwrites the bytes. */
export function writeScene(scene: ShardScene, setup: ShardSetup): Uint8Array {
  return new SceneWriter(scene, setup).write()
}

export function readScene(bytes: Uint8Array, offset: number, setup: ShardSetup): ShardScene {
  return new SceneReader(bytes, offset, setup).read()
}

type Ranks = ReadonlyMap<number, number>

/**
 * Returns a rank for each number, in the same order. 0 stays 0, because it means that there is none.
 *
 * Where a store keeps terms, each new term is above all others, and each new change above all others of its term. So
 * only the order counts. Where terms are forgotten, a term may be used again, and a new number may meet an old one:
 * numbers keep their distance from each other and from 0, up to `gap`. To be mistaken for a smaller distance, a larger
 * one would need as many coordinators, or as many writes of one, with nothing else happening to the old number in the
 * meantime.
 */
function ranked(numbers: Iterable<number>, gap: number): Ranks {
  const ranks = new Map<number, number>()
  let [previous, rank] = [0, 0]
  for (const number of [...new Set(numbers)].toSorted((one, other) => one - other)) {
    rank += Math.min(number - previous, gap)
    ranks.set(number, number === 0 ? 0 : rank)
    previous = number
  }
  return ranks
}

/** What is decoded for a view of which nothing but the version counts. */
const noRecord = { attempt: '', term: 0, released: false, isMember: true, report: undefined }

const buffer = new Uint8Array(1 << 14)

class SceneWriter {
  readonly #scene: ShardScene
  readonly #setup: ShardSetup
  /** Whether balancing may wake a coordinator between two reads. */
  readonly #canMove: boolean
  readonly #names = new Map<string, number>()
  readonly #groupTerms = new Set<number>()
  readonly #seatTerms: readonly Set<number>[]
  readonly #epochs = new Set<number>()
  #groupRanks: Ranks = new Map()
  #seatRanks: readonly Ranks[] = []
  #epochRanks: Ranks = new Map()
  /** The first pass collects terms and epochs, the second writes. */
  #isWriting = false
  #length = 0

  constructor(scene: ShardScene, setup: ShardSetup) {
    this.#scene = scene
    this.#setup = setup
    this.#seatTerms = scene.seats.map(() => new Set<number>())
    this.#canMove = scene.budget > 0 && setup.faults.has('move')
  }

  write(): Uint8Array {
    this.#all()
    const { keepsTerms } = this.#setup
    for (const epoch of this.#epochs) this.#groupTerms.add(termOf(epoch))
    this.#groupRanks = ranked(this.#groupTerms, keepsTerms ? 1 : termGap)
    this.#seatRanks = this.#seatTerms.map((terms) => ranked(terms, keepsTerms ? 1 : termGap))
    this.#epochRanks = this.#rankedEpochs()
    this.#isWriting = true
    this.#all()
    return buffer.subarray(0, this.#length)
  }

  #rankedEpochs(): Ranks {
    const byTerm = new Map<number, number[]>()
    for (const epoch of this.#epochs) {
      const term = termOf(epoch)
      const list = byTerm.get(term)
      // One more than the change, because change 0 is a change too.
      if (list) list.push((epoch % 65_536) + 1)
      else byTerm.set(term, [(epoch % 65_536) + 1])
    }
    const ranks = new Map<number, number>()
    for (const [term, changes] of byTerm) {
      const own = ranked(changes, this.#setup.keepsTerms ? 1 : changeGap)
      for (const change of changes) ranks.set(term * 65_536 + change - 1, (own.get(change) ?? 0) - 1)
    }
    return ranks
  }

  #all(): void {
    const { group, seats, processes, budget, preferred, token, owner } = this.#scene
    this.#byte(budget)
    this.#byte(preferred)
    this.#epoch(token)
    for (const who of orderOf(this.#scene)) this.#process(processes[who] as ModelProcess)
    this.#election(group, -1)
    for (const [seat, election] of seats.entries()) this.#election(election, seat)
    this.#name(owner)
    const late = this.#scene.late.filter((call) => !this.#isRefusedForever(call))
    this.#byte(late.length)
    for (const call of late) this.#call(call)
  }

  /** A late request that the store refuses now and always changes nothing when it arrives. */
  #isRefusedForever(call: ModelCall): boolean {
    const election = this.#electionOf(call)
    if ('version' in call) return election.record?.version !== call.version
    return this.#setup.keepsTerms && 'afterTerm' in call && election.highestTerm > call.afterTerm
  }

  #electionOf(call: ModelCall): ModelElection {
    return 'seat' in call ? (this.#scene.seats[call.seat] as ModelElection) : this.#scene.group
  }

  #byte(value: number): void {
    if (!this.#isWriting) return
    buffer[this.#length] = value
    this.#length += 1
  }

  #flag(value: boolean): void {
    this.#byte(value ? 1 : 0)
  }

  /** A time, which is never in the future. */
  #time(ms: number): void {
    this.#byte(-ms)
  }

  #name(name: string): void {
    if (!this.#isWriting) return
    if (name === '' || name === staleVersion || name === 'absent') {
      this.#byte(name === '' ? noName : name === 'absent' ? absentName : staleName)
      return
    }
    let known = this.#names.get(name)
    if (known === undefined) {
      known = this.#names.size
      this.#names.set(name, known)
    }
    this.#byte(known)
  }

  #version(version: string, { record }: ModelElection): void {
    this.#name(version === '' || version === record?.version ? version : staleVersion)
  }

  #term(term: number, seat: number): void {
    const isGroup = seat < 0
    if (!this.#isWriting) (isGroup ? this.#groupTerms : this.#seatTerms[seat])?.add(term)
    this.#byte((isGroup ? this.#groupRanks : this.#seatRanks[seat])?.get(term) ?? 0)
  }

  #epoch(epoch: number): void {
    if (!this.#isWriting) this.#epochs.add(epoch)
    this.#byte(this.#groupRanks.get(termOf(epoch)) ?? 0)
    this.#byte(epoch === 0 ? 0 : (this.#epochRanks.get(epoch) ?? 0))
  }

  #shard(shard: ShardState): void {
    if (shard.state === 'free' || shard.state === 'unknown') {
      this.#byte(shard.state === 'free' ? 0 : 1)
      return
    }
    this.#byte(shard.state === 'owned' ? 2 : 3)
    this.#byte(shard.owner.seat)
    this.#name(shard.owner.attempt)
    this.#epoch(shard.state === 'owned' ? shard.token : shard.since)
    if (shard.state === 'revoked') this.#name(shard.lineage)
  }

  #assignment({ epoch, lineage, shards }: Assignment): void {
    this.#epoch(epoch)
    this.#name(lineage)
    for (const shard of shards) this.#shard(shard)
  }

  #report(report: OwnershipReport | 0): void {
    this.#flag(report !== 0)
    if (report === 0) return
    this.#name(report.attempt)
    this.#name(report.lineage)
    this.#epoch(report.seen)
    this.#byte((report.running.length > 0 ? 4 : 0) + (report.leaving ? 2 : 0) + (report.left ? 1 : 0))
  }

  #checkpoint(checkpoint: ModelRecord['checkpoint'], seat: number): void {
    if (seat >= 0) {
      this.#report(checkpoint as OwnershipReport | 0)
      return
    }
    this.#flag(checkpoint !== 0)
    if (checkpoint !== 0) this.#assignment(checkpoint as Assignment)
  }

  #record(record: ModelRecord, seat: number): void {
    this.#name(record.attempt)
    this.#term(record.term, seat)
    this.#byte((record.released ? 2 : 0) + (record.isCleaning ? 1 : 0))
    this.#checkpoint(record.checkpoint, seat)
    this.#name(record.version)
  }

  #election({ record, highestTerm, ageTicks, isByHand }: ModelElection, seat: number): void {
    this.#flag(record !== undefined)
    this.#term(highestTerm, seat)
    // A record that its holder has released, or that was never written, can be taken at any age.
    const isAgeless = record ? record.released && !isByHand : highestTerm === 0
    this.#byte(isAgeless ? 0 : ageTicks)
    this.#flag(isByHand)
    if (record) this.#record(record, seat)
  }

  #call(call: ModelCall): void {
    this.#byte(verbs.indexOf(call.verb))
    const seat = 'seat' in call ? call.seat : -1
    const election = this.#electionOf(call)
    if ('seat' in call) this.#byte(call.seat)
    if ('attempt' in call) this.#name(call.attempt)
    if ('afterTerm' in call) {
      this.#term(call.afterTerm, seat)
      if (call.expired === 0 || call.expired === 'absent') this.#name(call.expired === 0 ? '' : 'absent')
      else this.#version(call.expired, election)
    }
    if ('version' in call) {
      this.#term(call.term, seat)
      this.#version(call.version, election)
    }
    if (call.verb === 'renew') this.#report(call.report)
    if (call.verb === 'write') {
      this.#flag(call.assignment !== 0)
      if (call.assignment !== 0) this.#assignment(call.assignment)
    }
  }

  #work({ work }: MemberState): void {
    this.#byte(work.length)
    for (const { isAborted, token } of work) {
      this.#flag(isAborted)
      // The token of aborted work is compared with nothing: it never runs again.
      this.#epoch(isAborted ? 0 : token)
    }
  }

  #member({ member, seen, confirmedEpoch, work, phase, ...rest }: MemberState): void {
    this.#flag(member !== undefined)
    this.#byte(phases.indexOf(phase))
    this.#work({ member, seen, confirmedEpoch, work, phase, ...rest })
    if (!member) return
    this.#byte(member.seat)
    this.#name(member.attempt)
    this.#flag(seen !== undefined)
    if (!seen) return
    this.#epoch(seen.epoch)
    this.#name(seen.lineage)
    // Of an assignment that it has acted on, a member asks only whether it owns the shard.
    const [shard] = seen.shards
    const isMine =
      shard?.state === 'owned' && shard.owner.attempt === member.attempt && shard.owner.seat === member.seat
    this.#flag(isMine)
    if (isMine) this.#epoch(shard.token)
    // A newer assignment has a higher epoch. Where terms are kept, an older report has no other meaning.
    const isConfirmed = confirmedEpoch >= seen.epoch
    this.#epoch(isConfirmed ? seen.epoch : this.#setup.keepsTerms ? 0 : confirmedEpoch)
  }

  #process(process: ModelProcess): void {
    const { life, member, seatTerm, seatVersion, sentTicks, mustRelease, coordinator, afterTerm, done, inbox } = process
    this.#byte(lives.indexOf(life))
    if (life === 'down') return
    this.#member(member)
    if (member.member) {
      const { seat } = member.member
      this.#term(seatTerm, seat)
      this.#version(seatVersion, this.#scene.seats[seat] as ModelElection)
      this.#byte(sentTicks)
      this.#flag(mustRelease)
    }
    this.#term(afterTerm, -1)
    // A process that continues after a stall has made no call in its tick.
    const bits = life === 'stalled' ? 0 : done.reduce((sum, verb) => sum | (1 << doneNames.indexOf(verb)), 0)
    this.#byte(bits & 255)
    this.#byte(bits >> 8)
    this.#flag(inbox !== 0)
    if (inbox !== 0) {
      this.#call(inbox.call)
      this.#byte(inbox.ticks)
      this.#answer(inbox.answer, 'seat' in inbox.call ? inbox.call.seat : -1)
    }
    this.#flag(coordinator !== 0)
    if (coordinator !== 0) this.#coordinator(coordinator, inbox)
  }

  #answer({ ok, record }: ModelAnswer, seat: number): void {
    this.#byte((ok ? 2 : 0) + (record === 0 ? 0 : 1))
    if (record !== 0) this.#record(record, seat)
  }

  #seatRecord(record: SeatRecord, seat: number): void {
    this.#name(record.attempt)
    this.#term(record.term, seat)
    this.#byte((record.released ? 2 : 0) + (record.isMember ? 1 : 0))
    this.#report(record.report ?? 0)
  }

  #coordinator({ state, version, round, roundSentMs, calls }: ModelCoordinator, inbox: ModelProcess['inbox']): void {
    const { lineage, term, confirmed, pending, readAtMs, seats, waits, acquires, over, recovery } = state
    this.#name(lineage)
    this.#term(term, -1)
    this.#version(version, this.#scene.group)
    this.#assignment(confirmed)
    // An attempt is granted once. Without it in the record, no write of this coordinator is ever accepted again: of its
    // decisions, only those about the acquire of seats have an effect, and each follows a new read.
    const isDeposed = this.#scene.group.record?.attempt !== lineage
    this.#flag(pending !== undefined && !isDeposed)
    if (pending && !isDeposed) this.#assignment(pending)
    this.#time(readAtMs)
    this.#time(roundSentMs)
    this.#byte(round.length)
    for (const [seat, record] of round.entries()) {
      this.#flag(record !== 0)
      if (record === 0) continue
      this.#seatRecord(record, seat)
      this.#name(record.version)
    }
    // The next input is a complete read, which replaces all that is known but when a version was first seen.
    const isNextRead =
      !pending && calls.length === 0 && !this.#canMove && (inbox === 0 || inbox.call.verb === 'read-seat')
    this.#byte(seats.length)
    for (const [seat, view] of seats.entries()) {
      const read = round[seat]
      const isRead = view !== undefined && read !== undefined && read !== 0 && read.version === view.version
      const isAnswered = inbox !== 0 && inbox.answer.record !== 0 && inbox.answer.record.version === view?.version
      const isCurrent = view?.version === this.#scene.seats[seat]?.record?.version
      const isSeen = isRead || isAnswered || isCurrent
      const isBare = isDeposed || isNextRead
      this.#byte(!view || (isBare && !isSeen) ? 0 : isBare ? 1 : 2)
      if (!view || (isBare && !isSeen)) continue
      if (!isBare) this.#seatRecord(view, seat)
      this.#name(isSeen ? view.version : staleVersion)
      this.#time(view.firstSeenAtMs)
    }
    this.#byte(waits.length)
    for (const { attempt, sinceMs } of waits) {
      this.#name(attempt)
      this.#time(sinceMs)
    }
    this.#byte(over.length)
    for (const attempt of over) this.#name(attempt)
    // An answered acquire matters only while a read can still show its attempt.
    const kept = acquires.filter(({ attempt, isAnswered }) => !isAnswered || this.#isShown(attempt, calls))
    this.#byte(kept.length)
    for (const { member, attempt, isAnswered } of kept) {
      this.#byte(member.seat)
      this.#name(member.attempt)
      this.#name(attempt)
      this.#flag(isAnswered)
    }
    this.#byte(calls.length)
    for (const call of calls) this.#call(call)
    this.#flag(recovery !== undefined)
    if (recovery) this.#recovery(recovery)
  }

  #isShown(attempt: string, calls: readonly ModelCall[]): boolean {
    const isIn = (call: ModelCall) => 'attempt' in call && call.attempt === attempt
    if (calls.some(isIn) || this.#scene.late.some(isIn)) return true
    if (this.#scene.seats.some(({ record }) => record?.attempt === attempt)) return true
    return this.#scene.processes.some(({ inbox, coordinator }) => {
      if (inbox !== 0 && (isIn(inbox.call) || (inbox.answer.record !== 0 && inbox.answer.record.attempt === attempt)))
        return true
      return coordinator !== 0 && coordinator.round.some((record) => record !== 0 && record.attempt === attempt)
    })
  }

  #recovery({ phase, sinceMs, awaited, cleared }: Recovery): void {
    this.#byte(recoveryPhases.indexOf(phase))
    this.#time(sinceMs)
    this.#byte(awaited.length)
    for (const { seat, attempt } of awaited) {
      this.#byte(seat)
      this.#name(attempt)
    }
    this.#byte(cleared.length)
    for (const attempt of cleared) this.#name(attempt)
  }
}

class SceneReader {
  readonly #bytes: Uint8Array
  readonly #setup: ShardSetup
  #offset: number
  #names = 0

  constructor(bytes: Uint8Array, offset: number, setup: ShardSetup) {
    this.#bytes = bytes
    this.#offset = offset
    this.#setup = setup
  }

  read(): ShardScene {
    const [budget, preferred, token] = [this.#byte(), this.#byte(), this.#epoch()]
    const processes = this.#list(this.#setup.processes, () => this.#process())
    const group = this.#election(-1)
    const seats = this.#list(this.#setup.seats, (seat) => this.#election(seat))
    const owner = this.#name()
    const late = this.#list(this.#byte(), () => this.#call())
    return { group, seats, processes, late, budget, preferred, token, owner, names: this.#names }
  }

  #byte(): number {
    const byte = this.#bytes[this.#offset] ?? 0
    this.#offset += 1
    return byte
  }

  #flag(): boolean {
    return this.#byte() === 1
  }

  #time(): number {
    const ms = this.#byte()
    return ms === 0 ? 0 : -ms
  }

  #list<T>(length: number, read: (index: number) => T): T[] {
    const list: T[] = []
    for (let index = 0; index < length; index += 1) list.push(read(index))
    return list
  }

  #name(): string {
    const name = this.#byte()
    if (name === noName) return ''
    if (name === staleName) return staleVersion
    if (name === absentName) return 'absent'
    if (name + 1 > this.#names) this.#names = name + 1
    return nameNumber(name + 1)
  }

  #epoch(): number {
    const term = this.#byte()
    return term * 65_536 + this.#byte()
  }

  #shard(): ShardState {
    const kind = this.#byte()
    if (kind < 2) return { state: kind === 0 ? 'free' : 'unknown' }
    const owner = { seat: this.#byte(), attempt: this.#name() }
    const epoch = this.#epoch()
    if (kind === 2) return { state: 'owned', owner, token: epoch }
    return { state: 'revoked', owner, since: epoch, lineage: this.#name() }
  }

  #assignment(): Assignment {
    const [epoch, lineage] = [this.#epoch(), this.#name()]
    const shards = [this.#shard()]
    return { settings: settingsOf(this.#setup), epoch, lineage, members: namedMembers(shards), shards }
  }

  #report(): OwnershipReport | 0 {
    if (!this.#flag()) return 0
    const [attempt, lineage, seen, flags] = [this.#name(), this.#name(), this.#epoch(), this.#byte()]
    const running = flags >= 4 ? [0] : []
    return { attempt, lineage, seen, running, leaving: (flags & 2) > 0, left: (flags & 1) > 0 }
  }

  #record(seat: number): ModelRecord {
    const [attempt, term, flags] = [this.#name(), this.#byte(), this.#byte()]
    const checkpoint = seat >= 0 ? this.#report() : this.#flag() ? this.#assignment() : 0
    return { attempt, term, released: flags >= 2, isCleaning: (flags & 1) > 0, checkpoint, version: this.#name() }
  }

  #election(seat: number): ModelElection {
    const hasRecord = this.#flag()
    const [highestTerm, ageTicks, isByHand] = [this.#byte(), this.#byte(), this.#flag()]
    return { record: hasRecord ? this.#record(seat) : undefined, highestTerm, ageTicks, isByHand }
  }

  #call(): ModelCall {
    const verb = verbs[this.#byte()] ?? 'read'
    const seat = verb === 'read' || verb === 'take-group' || verb === 'write' ? -1 : this.#byte()
    if (verb === 'read-seat') return { verb, seat }
    const attempt = this.#name()
    if (verb === 'read') return { verb, attempt }
    const [term, version] = [this.#byte(), this.#name()]
    if (verb === 'take-group') return { verb, attempt, afterTerm: term, expired: version || 0 }
    if (verb === 'take-seat' || verb === 'clean-seat')
      return { verb, seat, attempt, afterTerm: term, expired: version || 0 }
    if (verb === 'renew') return { verb, report: this.#report(), seat, attempt, term, version }
    if (verb === 'write') return { verb, assignment: this.#flag() ? this.#assignment() : 0, attempt, term, version }
    return { verb, seat, attempt, term, version }
  }

  #member(): MemberState {
    const { keepsTerms } = this.#setup
    const [hasSeat, phase] = [this.#flag(), phases[this.#byte()] ?? 'joined']
    const work = this.#list(this.#byte(), () => ({ shard: 0, isAborted: this.#flag(), token: this.#epoch() }))
    if (!hasSeat) return { keepsTerms, member: undefined, seen: undefined, confirmedEpoch: 0, work, phase }
    const member = { seat: this.#byte(), attempt: this.#name() }
    if (!this.#flag()) return { keepsTerms, member, seen: undefined, confirmedEpoch: 0, work, phase }
    const [epoch, lineage, isMine] = [this.#epoch(), this.#name(), this.#flag()]
    const shard: ShardState = isMine ? { state: 'owned', owner: member, token: this.#epoch() } : { state: 'free' }
    const members = isMine ? [member] : []
    const seen = { settings: settingsOf(this.#setup), epoch, lineage, members, shards: [shard] }
    return { keepsTerms, member, seen, confirmedEpoch: this.#epoch(), work, phase }
  }

  #process(): ModelProcess {
    const life = lives[this.#byte()] ?? 'down'
    if (life === 'down') return downProcess(this.#setup.keepsTerms)
    const member = this.#member()
    const hasSeat = member.member !== undefined
    const seatTerm = hasSeat ? this.#byte() : 0
    const seatVersion = hasSeat ? this.#name() : ''
    const sentTicks = hasSeat ? this.#byte() : 0
    const mustRelease = hasSeat && this.#flag()
    const afterTerm = this.#byte()
    const bits = this.#byte() + (this.#byte() << 8)
    const done = bits === 0 ? [] : doneNames.filter((_, index) => (bits & (1 << index)) > 0)
    const inbox = this.#flag() ? this.#inbox() : 0
    const coordinator = this.#flag() ? this.#coordinator() : 0
    return { life, member, seatTerm, seatVersion, sentTicks, mustRelease, coordinator, afterTerm, done, inbox }
  }

  #inbox(): ModelProcess['inbox'] {
    const call = this.#call()
    const [ticks, flags] = [this.#byte(), this.#byte()]
    const record = (flags & 1) > 0 ? this.#record('seat' in call ? call.seat : -1) : 0
    return { call, ticks, answer: { ok: flags >= 2, record } }
  }

  #seatRecord(): Omit<SeatRecord, 'version'> {
    const [attempt, term, flags] = [this.#name(), this.#byte(), this.#byte()]
    const report = this.#report()
    return {
      attempt,
      term,
      released: flags >= 2,
      isMember: (flags & 1) > 0,
      leaseDurationMs: this.#setup.leaseTicks,
      report: report === 0 ? undefined : report,
    }
  }

  #view(): SeatView | undefined {
    const kind = this.#byte()
    if (kind === 0) return undefined
    const { leaseTicks } = this.#setup
    const record = kind === 2 ? this.#seatRecord() : { ...noRecord, leaseDurationMs: leaseTicks }
    return { ...record, version: this.#name(), firstSeenAtMs: this.#time(), presentSinceMs: -leaseTicks }
  }

  #coordinator(): ModelCoordinator {
    const { leaseTicks } = this.#setup
    const [lineage, term, version] = [this.#name(), this.#byte(), this.#name()]
    const confirmed = this.#assignment()
    const pending = this.#flag() ? this.#assignment() : undefined
    const [readAtMs, roundSentMs] = [this.#time(), this.#time()]
    const round = this.#list(this.#byte(), () => (this.#flag() ? { ...this.#seatRecord(), version: this.#name() } : 0))
    const seats = this.#list(this.#byte(), () => this.#view())
    const waits = this.#list(this.#byte(), () => ({ attempt: this.#name(), sinceMs: this.#time() }))
    const over = this.#list(this.#byte(), () => this.#name())
    const acquires = this.#list(this.#byte(), () => ({
      member: { seat: this.#byte(), attempt: this.#name() },
      attempt: this.#name(),
      isAnswered: this.#flag(),
    }))
    const calls = this.#list(this.#byte(), () => this.#call())
    const recovery = this.#flag() ? this.#recovery() : undefined
    const state: CoordinatorState = {
      settings: coordinatorSettings(this.#setup),
      lineage,
      term,
      electedAtMs: -leaseTicks,
      confirmed,
      pending,
      wroteAtMs: -leaseTicks,
      readAtMs,
      seats,
      waits,
      acquires,
      acquireCount: 0,
      over,
      recovery,
    }
    return { state, version, round, roundSentMs, calls }
  }

  #recovery(): Recovery {
    const [phase, sinceMs] = [recoveryPhases[this.#byte()] ?? 'read', this.#time()]
    const awaited = this.#list(this.#byte(), () => ({ seat: this.#byte(), attempt: this.#name() }))
    return { phase, sinceMs, awaited, cleared: this.#list(this.#byte(), () => this.#name()) }
  }
}

const numbered: string[] = []

function nameNumber(number: number): string {
  return (numbered[number] ??= `#${number}`)
}
