/** Checks of single steps, which some mutants must fail. Each gets the rules, real or with a mutant. */
import assert from 'node:assert/strict'
import type { Assignment, OwnershipReport, ShardState } from '../../src/shards/assignment.ts'
import type { CoordinatorSettings, CoordinatorState, CoordinatorStep } from '../../src/shards/coordinator.ts'
import type { MemberState } from '../../src/shards/shard-member.ts'
import type { SeatRecord } from '../../src/shards/seats.ts'

export interface Rules {
  readonly member: typeof import('../../src/shards/shard-member.ts')
  readonly coordinator: typeof import('../../src/shards/coordinator.ts')
  readonly balancing: typeof import('../../src/shards/balance.ts')
}

export const ruleFiles = {
  member: 'shards/shard-member.ts',
  coordinator: 'shards/coordinator.ts',
  balancing: 'shards/balance.ts',
}

const leaseDurationMs = 1_000
const settings = { shards: 1, hash: 'h', leaseDurationMs }
const own = { seat: 0, attempt: 'a' }
const epochIn = (term: number, n: number) => term * 65_536 + n

function assignment(epoch: number, shard: ShardState, lineage = 'c'): Assignment {
  return { settings, epoch, lineage, members: 'owner' in shard ? [shard.owner] : [], shards: [shard] }
}

const ownedIn = (epoch: number) => assignment(epoch, { state: 'owned', owner: own, token: epoch })

/** A member that owns the shard with a token of term 1. */
function owner({ member }: Rules, keepsTerms = true): MemberState {
  const { state } = member.memberStep(member.newMember(keepsTerms), { type: 'seat-won', member: own }, true)
  return member.memberStep(state, { type: 'read', attempt: 'a', assignment: ownedIn(epochIn(1, 5)) }, true).state
}

const coordinatorSettings: CoordinatorSettings = {
  shards: settings,
  maxMembers: 3,
  seatLimit: 3,
  maxMoves: 1,
  retryIntervalMs: 0,
  writeIntervalMs: 0,
  keepsTerms: true,
  checkpointLimitBytes: 4_096,
}

function elected({ coordinator }: Rules, found: Assignment | undefined, term = 2): CoordinatorState {
  const state = coordinator.newCoordinator(coordinatorSettings, {
    lineage: 'c2',
    term,
    assignment: found,
    seats: [],
    nowMs: 0,
  })
  if (typeof state === 'string') throw new Error(`the settings differ in ${state}`)
  return state
}

function seat(attempt: string, more: Partial<SeatRecord> = {}): SeatRecord {
  return {
    attempt,
    term: 7,
    version: `${attempt}1`,
    released: false,
    leaseDurationMs,
    report: undefined,
    isMember: true,
    ...more,
  }
}

function reads(
  { coordinator, balancing }: Rules,
  state: CoordinatorState,
  nowMs: number,
  shown: readonly (SeatRecord | undefined)[],
): CoordinatorStep {
  const records = Array.from({ length: Math.max(state.settings.maxMembers, shown.length) }, (_, index) => shown[index])
  const tools = { balance: balancing.balance, sizeOf: () => 0 }
  const step = coordinator.coordinatorStep(state, { type: 'seats', sentAtMs: nowMs, records, nowMs }, tools)
  const isWritten = step.effects.some((effect) => effect.do === 'write')
  if (!isWritten) return step
  const after = coordinator.coordinatorStep(step.state, { type: 'written', nowMs }, tools)
  return { state: after.state, effects: [...step.effects, ...after.effects] }
}

const report = (more: Partial<OwnershipReport> = {}): OwnershipReport => ({
  attempt: 'a',
  lineage: 'c',
  seen: epochIn(1, 6),
  running: [],
  leaving: false,
  left: false,
  ...more,
})

export const checks = {
  'a member ignores an assignment whose epoch is not higher': (rules: Rules) => {
    const free = assignment(epochIn(1, 6), { state: 'free' })
    const seen = rules.member.memberStep(owner(rules), { type: 'read', attempt: 'a', assignment: free }, true).state
    const stale = rules.member.memberStep(
      seen,
      { type: 'read', attempt: 'a', assignment: ownedIn(epochIn(1, 5)) },
      true,
    )
    assert.equal(rules.member.ownedToken(stale.state, 0, true), undefined)
  },
  'a member starts no work on a shard before its earlier work has settled': (rules: Rules) => {
    const again = { type: 'read' as const, attempt: 'a', assignment: ownedIn(epochIn(1, 9)) }
    const { state } = rules.member.memberStep(owner(rules), again, true)
    assert.deepEqual(state.work, [{ shard: 0, token: epochIn(1, 5), isAborted: true }])
    const settled = rules.member.memberStep(state, { type: 'settled', shard: 0 }, true)
    assert.deepEqual(settled.state.work, [{ shard: 0, token: epochIn(1, 9), isAborted: false }])
  },
  'the acquire of a seat is above the term of the record that was read': (rules: Rules) => {
    const first = reads(rules, elected(rules, ownedIn(epochIn(1, 5))), 0, [seat('a')])
    const between = reads(rules, first.state, 900, [seat('a')])
    const { effects } = reads(rules, between.state, 1_000, [seat('a')])
    const claim = { attempt: 'c2/1', afterTerm: 7, expiredVersion: 'a1' }
    const acquires = effects.filter((effect) => effect.do === 'acquire-seat')
    assert.deepEqual(acquires, [{ do: 'acquire-seat', seat: 0, claim }])
  },
  'a recovery waits for a member that it found before the wait': (rules: Rules) => {
    let { state } = reads(rules, elected(rules, undefined), 0, [seat('a')])
    state = reads(rules, state, 100, [seat('a')]).state
    // The member renews late, its seat is deleted, and the wait ends while it still believes.
    state = reads(rules, state, 900, [seat('a', { version: 'a2' })]).state
    const { effects } = reads(rules, state, 1_100, [undefined])
    assert.deepEqual(effects, [])
  },
  'a recovery raises its term above every reported one': (rules: Rules) => {
    const inherited = seat('b', { report: report({ seen: epochIn(5, 3) }) })
    const { effects } = reads(rules, elected(rules, undefined), 0, [undefined, inherited])
    const raised = effects.map((effect) => (effect.do === 'step-down' ? effect.afterTerm : effect.do))
    assert.deepEqual(raised, [5])
  },
  'a recovery counts no read that ends with a seat in use': (rules: Rules) => {
    const before = elected(rules, undefined)
    const state = { ...before, settings: { ...before.settings, seatLimit: 100 } }
    const taken = [seat('a'), seat('b'), seat('c')]
    const short = reads(rules, state, 0, taken)
    assert.deepEqual(short.effects, [])
    const whole = reads(rules, short.state, 100, [...taken, undefined, undefined, undefined])
    assert.deepEqual(
      whole.effects.map((effect) => effect.do),
      ['write'],
    )
  },
  'a report of an earlier member on the seat does not count': (rules: Rules) => {
    const owned = assignment(epochIn(1, 5), { state: 'owned', owner: { seat: 0, attempt: 'b' }, token: epochIn(1, 5) })
    const { state } = reads(rules, elected(rules, owned), 0, [seat('b', { report: report({ left: true }) }), seat('n')])
    assert.deepEqual(state.confirmed.shards, owned.shards)
    const since = epochIn(1, 6)
    const taken = assignment(since, { state: 'revoked', owner: { seat: 0, attempt: 'b' }, since, lineage: 'c' })
    const after = reads(rules, elected(rules, taken), 0, [seat('b', { report: report() })]).state
    assert.deepEqual(after.confirmed.shards, taken.shards)
  },
  'the coordinator does not acquire a seat because another attempt released it': (rules: Rules) => {
    const { effects } = reads(rules, elected(rules, ownedIn(epochIn(1, 5))), 0, [seat('b', { released: true })])
    assert.deepEqual(
      effects.filter((effect) => effect.do === 'acquire-seat'),
      [],
    )
  },
  'a member owns nothing when its leadership has ended by the clock': (rules: Rules) => {
    assert.equal(rules.member.ownedToken(owner(rules), 0, true), epochIn(1, 5))
    assert.equal(rules.member.ownedToken(owner(rules), 0, false), undefined)
  },
  'a member reports nothing before it has seen an assignment': (rules: Rules) => {
    const { state, effects } = rules.member.memberStep(
      rules.member.newMember(false),
      { type: 'seat-won', member: own },
      true,
    )
    assert.equal(rules.member.reportOf(state), undefined)
    assert.deepEqual(effects, [])
  },
  'a member owns nothing before its report is confirmed where terms are forgotten': (rules: Rules) => {
    const before = owner(rules, false)
    assert.equal(rules.member.ownedToken(before, 0, true), undefined)
    const confirmed = { type: 'reported' as const, report: report({ seen: epochIn(1, 5) }) }
    assert.equal(
      rules.member.ownedToken(rules.member.memberStep(before, confirmed, true).state, 0, true),
      epochIn(1, 5),
    )
  },
  'a member ignores a read that was sent under an earlier attempt': (rules: Rules) => {
    const { state } = rules.member.memberStep(rules.member.newMember(true), { type: 'seat-won', member: own }, true)
    const old = rules.member.memberStep(state, { type: 'read', attempt: 'z', assignment: ownedIn(epochIn(1, 5)) }, true)
    assert.equal(old.state.seen, undefined)
  },
} satisfies Record<string, (rules: Rules) => void>
