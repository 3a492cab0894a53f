/** Mutants of the rules for shards. The model checker must find a violation in each, or the named check must fail. */
import type { Mutation } from '../../../../test/mutants/mutant.ts'
import type { ShardOptions } from './explore/index.ts'
import type { checks } from './checks.ts'

export interface ShardMutation extends Mutation {
  /** The options with which the model checker finds it. */
  readonly in?: ShardOptions
  /** The check that fails, where a single step shows the mistake. */
  readonly caughtBy?: keyof typeof checks
}

/** The limit of states within which the model checker must find a mutant. */
export const shardMutantStates = 40_000

const member = 'shards/shard-member.ts'
const coordinator = 'shards/coordinator.ts'
const seats = 'shards/seats.ts'
const recovery = 'shards/recovery.ts'

export const shardMutations: readonly ShardMutation[] = [
  {
    name: 'count the wait for a seat from its first version although it was renewed since',
    file: seats,
    find: 'firstSeenAtMs: known?.version === record.version ? known.firstSeenAtMs : nowMs',
    replace: 'firstSeenAtMs: known ? known.firstSeenAtMs : nowMs',
    in: { faults: ['crash', 'stall'], observesEarly: true },
  },
  {
    name: 'grant a revoked shard that is not free',
    file: coordinator,
    find: "if (shard.state !== 'revoked' || !report) return false",
    replace: "if (shard.state === 'revoked' || !report) return shard.state === 'revoked'",
    in: { faults: ['move'] },
  },
  {
    name: 'treat a missing seat as over',
    file: seats,
    find: 'if (!wait) return { wait: { attempt, sinceMs: nowMs }, isOver: false }',
    replace: 'if (!wait) return { wait: { attempt, sinceMs: nowMs }, isOver: records[seat] === undefined }',
    in: { faults: ['delete-seat'] },
  },
  {
    name: 'treat a seat that shows released as over',
    file: coordinator,
    find: 'if (own?.member.attempt === member.attempt) state = isOver(state, member)',
    replace: 'if (own?.member.attempt === member.attempt || record?.released) state = isOver(state, member)',
    in: { faults: ['release-by-hand'] },
  },
  {
    name: 'free a shard on seen alone while it runs',
    file: coordinator,
    find: 'return isKnown && report.seen >= shard.since && !report.running.includes(number)',
    replace: 'return isKnown && report.seen >= shard.since && number >= 0',
    in: { faults: ['move'] },
  },
  {
    name: 'report an assignment as seen without aborting what it takes away',
    file: member,
    find: 'work: state.work.map((work) => (isKept(work) ? work : { ...work, isAborted: true }))',
    replace: 'work: state.work.filter((work) => isKept(work) || work.isAborted || true)',
    also: [
      {
        file: member,
        find: 'const running = [...new Set(work.map(({ shard }) => shard))]',
        replace:
          "const running = [...new Set(work.filter(({ shard }) => seen.shards[shard]?.state === 'owned').map(({ shard }) => shard))]",
      },
    ],
    in: { faults: ['move'] },
  },
  {
    name: 'act on a lower epoch',
    file: member,
    find: 'if (assignment.epoch <= (state.seen?.epoch ?? 0)) return state',
    replace: 'if (assignment.epoch === (state.seen?.epoch ?? 0)) return state',
    caughtBy: 'a member ignores an assignment whose epoch is not higher',
  },
  {
    name: 'ignore the attempt in the assignment',
    file: member,
    find: 'return owner.seat === seat && owner.attempt === attempt',
    replace: 'return owner.seat === seat && attempt !== ""',
    in: { faults: ['crash', 'stall'] },
  },
  {
    name: 'start work before the earlier work has settled',
    file: member,
    find: 'if (token === undefined || state.work.some((one) => one.shard === shard)) continue',
    replace:
      'if (token === undefined || state.work.some((one) => one.shard === shard && one.token === token)) continue',
    caughtBy: 'a member starts no work on a shard before its earlier work has settled',
  },
  {
    name: 'acquire a seat with afterTerm 0',
    file: coordinator,
    find: 'const claim = { attempt, afterTerm: view.term,',
    replace: 'const claim = { attempt, afterTerm: 0 * view.term,',
    in: { faults: ['crash'] },
  },
  {
    name: 'recover by writing free first',
    file: recovery,
    find: "state: phase === 'free' ? 'free' : 'unknown'",
    replace: "state: phase === 'free' || phase === 'write' ? 'free' : 'unknown'",
    also: [
      {
        file: recovery,
        find: "if (recovery.phase === 'free') return",
        replace: "if (recovery.phase === 'free' || recovery.phase === 'write') return",
      },
    ],
    in: { budget: 2, faults: ['delete-group', 'move'] },
  },
  {
    name: 'recover by reading the seats only after the wait',
    file: recovery,
    find: 'const awaited = [...recovery.awaited, ...found.filter(({ attempt }) => !known.has(attempt))]',
    replace: `const isWaited = nowMs - sinceMs >= settings.shards.leaseDurationMs
  const awaited = [...recovery.awaited, ...found.filter(({ attempt }) => isWaited && !known.has(attempt))]`,
    caughtBy: 'a recovery waits for a member that it found before the wait',
  },
  {
    name: 'recover without regard to what runs',
    file: recovery,
    find: 'return report?.lineage === lineage && report.running.length === 0',
    replace: 'return report?.lineage === lineage',
    in: { budget: 2, faults: ['delete-group', 'move'] },
  },
  {
    name: 'recover without raising the term',
    file: recovery,
    find: 'if (reportedTerm >= term) {',
    replace: 'if (reportedTerm >= term && nowMs < 0) {',
    also: [
      { file: recovery, find: 'const { nowMs, sentAtMs } = round\n', replace: '' },
      {
        file: recovery,
        find: 'const { lineage, term, settings } = state\n',
        replace: 'const { lineage, term, settings } = state\n  const { nowMs, sentAtMs } = round\n',
      },
    ],
    in: { budget: 2, keepsTerms: false, faults: ['delete-group', 'crash'] },
  },
  {
    name: 'recover without the seats that only other processes could take',
    file: coordinator,
    find: 'input.records.length >= seatsToRead(state, input.records)',
    replace: 'input.records.length >= state.settings.maxMembers',
    caughtBy: 'a recovery counts no read that ends with a seat in use',
  },
  {
    name: 'count a report without its attempt',
    file: seats,
    find: 'return view?.attempt === attempt && view.report?.attempt === attempt ? view.report : undefined',
    replace: 'return view?.attempt === attempt ? view.report : undefined',
    caughtBy: 'a report of an earlier member on the seat does not count',
  },
  {
    name: "take the left of another attempt for the member's own",
    file: seats,
    find: 'return report?.attempt === attempt && report.left',
    replace: 'return attempt !== "" && report?.left === true',
    caughtBy: 'a report of an earlier member on the seat does not count',
  },
  {
    name: "take a release of another attempt for the member's own",
    file: coordinator,
    find: 'if (view?.attempt !== member.attempt) continue',
    replace: 'if (!view || (view.attempt !== member.attempt && !view.released)) continue',
    caughtBy: 'the coordinator does not acquire a seat because another attempt released it',
  },
  {
    name: "use the coordinator's term as the token",
    file: coordinator,
    find: "return { state: 'owned', owner, token: epoch }",
    replace: "return { state: 'owned', owner, token: epoch - (epoch % 65_536) }",
    in: { faults: ['move'] },
  },
  {
    name: 'own a shard by the assignment alone',
    file: member,
    find: "if (!believes || !member || phase === 'closing'",
    replace: "if (!member || phase === 'closing'",
    in: { faults: ['stall'] },
  },
  {
    name: 'report before anything was seen',
    file: member,
    find: 'if (!member || !seen) return undefined',
    replace: 'if (!member) return undefined',
    also: [
      {
        file: member,
        find: 'const { lineage, epoch } = seen',
        replace: "const { lineage, epoch } = seen ?? { lineage: '', epoch: 0 }",
      },
    ],
    caughtBy: 'a member reports nothing before it has seen an assignment',
  },
  {
    name: 'own a shard before its term is reported where terms are forgotten',
    file: member,
    find: 'if (!keepsTerms && termOf(confirmedEpoch) < termOf(found.token)) return undefined',
    replace: 'if (!keepsTerms && confirmedEpoch < 0) return undefined',
    caughtBy: 'a member owns nothing before its report is confirmed where terms are forgotten',
  },
  {
    name: 'act on a read that was sent under an earlier attempt',
    file: member,
    find: 'if (!assignment || attempt !== state.member?.attempt) return state',
    replace: 'if (!assignment || attempt === "") return state',
    caughtBy: 'a member ignores a read that was sent under an earlier attempt',
  },
  {
    name: 'report left while the work runs',
    file: member,
    find: "if (work.length > 0 || phase === 'joined' || phase === 'left') return state",
    replace: "if (phase === 'joined' || phase === 'left') return state",
    in: { faults: ['leave'] },
  },
]
