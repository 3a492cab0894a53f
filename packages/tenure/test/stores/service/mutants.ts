import type { Mutation } from '../../../../../test/mutants/mutant.ts'

/** A mutant of the service store, and the check that must catch it. */
export interface ServiceMutation extends Mutation {
  /** A case of the conformance suite, or a check in test/service/store-mutants.slow.test.ts. */
  readonly caughtBy: string
}

/** A real service must reveal every one of these. */
export const serviceMutations: readonly ServiceMutation[] = [
  {
    name: 'a renewal and a release omit the version',
    file: 'stores/service/index.ts',
    find: 'return { node_id: holder, attempt, term, version, write_id: writeId, successor }',
    replace: 'return { node_id: holder, attempt, term, version: version && undefined, write_id: writeId, successor }',
    caughtBy: 'renew of a version that was renewed is refused and returns the record',
  },
  {
    name: 'a renewal and a release omit the attempt',
    file: 'stores/service/index.ts',
    find: 'return { node_id: holder, attempt, term, version, write_id: writeId, successor }',
    replace: 'return { node_id: holder, attempt: attempt && undefined, term, version, write_id: writeId, successor }',
    // The mutant must also accept an answer about another attempt, because the store would otherwise reject it.
    also: [{ file: 'stores/service/answer-records.ts', find: 'record.attempt === attempt &&', replace: '' }],
    caughtBy: 'renew with another attempt is refused',
  },
  {
    name: 'a claim omits the highest term that its sender has seen',
    file: 'stores/service/index.ts',
    find: 'after_term: afterTerm,',
    replace: '',
    caughtBy: 'a candidate that has not seen the highest term is refused, even when the lease was released',
  },
  {
    name: 'a claim omits the attempt',
    file: 'stores/service/index.ts',
    find: 'const asked = { node_id: holder, attempt,',
    replace: 'const asked = { node_id: holder, instance_start_uuid: attempt,',
    also: [{ file: 'stores/service/answer-records.ts', find: 'record.attempt === attempt &&', replace: '' }],
    caughtBy: 'acquire with an attempt that was released is refused',
  },
  {
    name: 'a grant is valid as long as the service promised, not as long as requested',
    file: 'stores/service/index.ts',
    find: 'return granted(ownRecordOf({ election, holder, attempt }, leader, false), claim)',
    replace: 'return granted(ownRecordOf({ election, holder, attempt }, leader, false), { leaseDurationMs: Infinity })',
    caughtBy: 'a grant is never valid for longer than requested',
  },
  {
    name: 'a watch does not name its candidate',
    file: 'stores/service/index.ts',
    find: '`&node_id=${encodeURIComponent(holder)}`',
    replace: "''",
    caughtBy: 'a candidate that watches counts as a live member',
  },
  {
    name: 'two election names share one group',
    file: 'stores/service/index.ts',
    find: 'return encodeName(election, plainGroup)',
    replace: "return encodeName(election.replaceAll(/[^\\w]/g, '_').slice(0, 100), plainGroup)",
    caughtBy: 'elections with unusual names do not collide',
  },
  {
    name: 'a released lease is shown as held',
    file: 'stores/service/answer-records.ts',
    find: 'recordOf(election, previous, true)',
    replace: 'recordOf(election, previous, false)',
    caughtBy: 'a released record stays in the store with its term',
  },
  {
    name: 'a group that was deleted before its lease expired counts as free',
    file: 'stores/service/answer-records.ts',
    find: 'if (retry !== undefined) {',
    replace: 'if (retry === null) {',
    caughtBy: 'after a group was deleted, a refusal contains the time until a lease may be granted',
  },
  {
    name: 'a watch does not receive renewals',
    file: 'stores/service/index.ts',
    find: '?renewals=true${name}',
    replace: '?renewals=false${name}',
    caughtBy: 'a watch shows a grant, a renewal and a release to a reader that is already waiting',
  },
  {
    name: 'a watch shows a released lease as held',
    file: 'stores/service/index.ts',
    find: "recordOf(election, event['previous_leader'], true)",
    replace: "recordOf(election, event['previous_leader'], false)",
    caughtBy: 'two watches both see a release, and one continues when the other ends',
  },
  {
    name: 'a renewal drops the checkpoint',
    file: 'stores/service/index.ts',
    find: '...(checkpoint !== undefined && { checkpoint }),',
    replace: '...(checkpoint !== undefined && {}),',
    caughtBy: 'only a renewal changes the checkpoint, and the checkpoint survives a handover',
  },
  {
    name: 'an answer from another cluster is accepted',
    file: 'stores/service/cluster.ts',
    find: 'this.#id === undefined || id === this.#id) return',
    replace: 'this.#id === undefined || id !== undefined) return',
    also: [
      {
        file: 'stores/service/cluster.ts',
        find: 'return this.#id === undefined ? {} : { [clusterHeader]: this.#id }',
        replace: 'return {}',
      },
    ],
    caughtBy: 'an answer from another cluster is rejected',
  },
  {
    name: 'another cluster is asked for a grant that the store will reject',
    file: 'stores/service/cluster.ts',
    find: 'return this.#id === undefined ? {} : { [clusterHeader]: this.#id }',
    replace: 'return {}',
    caughtBy: 'another cluster refuses a claim before it grants anything',
  },
  {
    name: 'each address gets the whole deadline',
    file: 'clients/http/endpoints.ts',
    find: 'signal: ending.signal, timeoutMs: leftMs }',
    replace: 'signal: ending.signal, timeoutMs: timeoutMs || leftMs }',
    also: [
      { file: 'clients/http/endpoints.ts', find: 'leftMs <= 0 ||', replace: '' },
      {
        file: 'clients/http/endpoints.ts',
        find: 'const shareMs = leftMs /',
        replace: 'const shareMs = 2 ** 30 + leftMs /',
      },
    ],
    caughtBy: 'the calls to addresses that hang share one deadline',
  },
]
