import type { Mutation } from '../../../../../test/mutants/mutant.ts'

/** A mutant of the Consul store, and the check that must catch it. */
export interface ConsulMutation extends Mutation {
  /** A case of the conformance suite, or a check in `checks.ts`, `history.server.test.ts` or `access.server.test.ts`. */
  readonly caughtBy: string
}

const keys = 'stores/consul/lease-keys.ts'
const client = 'stores/consul/client.ts'

/** A real Consul must reveal every one of these. */
export const consulMutations: readonly ConsulMutation[] = [
  {
    name: 'the swap writes the record without comparing its index',
    file: keys,
    find: "{ verb: 'cas', key: recordIn(path), index: oldRecord?.modifyIndex ?? 0, value: text }",
    replace: "{ verb: 'set', key: recordIn(path), value: text }",
    caughtBy: 'a takeover is refused when the record was renewed after it was read',
  },
  {
    name: 'the swap writes the highest term without comparing its index',
    file: keys,
    find: "{ verb: 'cas', key: termIn(path), index: oldTerm?.modifyIndex ?? 0, value: termText }",
    replace: "{ verb: 'set', key: termIn(path), value: termText }",
    caughtBy: 'a claim that saw no record is refused after the record of another grant was deleted',
  },
  {
    name: 'the highest term is stored only in the record',
    file: keys,
    find: "{ verb: 'cas', key: termIn(path), index: oldTerm?.modifyIndex ?? 0, value: termText }",
    replace: "{ verb: 'set', key: `${path}unused`, value: termText }",
    caughtBy: 'the highest term survives the removal of its record',
  },
  {
    name: 'a lower term overwrites the highest term',
    file: keys,
    find: 'term: Math.max(over.highestTerm, draft.term)',
    replace: 'term: draft.term',
    caughtBy: 'a renewal never lowers the highest term',
  },
  {
    name: 'the lease duration is not stored with the term',
    file: keys,
    find: 'lastDurationMs: kept?.leaseDurationMs, kept }',
    replace: 'lastDurationMs: undefined, kept }',
    caughtBy: 'a candidate waits for the lease duration of a deleted record even if it never saw the record',
  },
  {
    name: 'a refused transaction counts as applied',
    file: keys,
    find: 'if (!results) return { ok: false }',
    replace:
      'if (!results) return { ok: true, found: { ...over, record: { ...draft, version: this.#clock.randomId() } } }',
    caughtBy: 'exactly one of many contenders wins a released lease',
  },
  {
    name: 'a read may come from a server that lost its leadership',
    file: client,
    find: '?recurse&consistent${blocking}',
    replace: '?recurse${blocking}',
    caughtBy: 'every read is linearizable, and a renewal and a release take one request each',
  },
  {
    name: 'forget removes the record without comparing it',
    file: keys,
    find: '[...same, ...removals]',
    replace: '[...removals]',
    caughtBy: 'forget never removes a concurrent grant',
  },
  {
    name: 'election names are used in keys without encoding',
    file: keys,
    find: ': encodeURIComponent(election)',
    replace: ': election',
    caughtBy: 'prefixes and elections with a common beginning share no keys',
  },
  {
    name: 'a watch does not wait for a change',
    file: client,
    find: 'const blocking = wait ? `',
    replace: 'const blocking = wait && !wait.waitMs ? `',
    caughtBy: 'a watch waits for the next change and does not repeat its request in the meantime',
  },
  {
    name: 'only the first agent is used',
    file: client,
    find: 'const peers = addresses.map(',
    replace: 'const peers = addresses.slice(0, 1).map(',
    caughtBy: 'acquire finds its own grant through the next agent when its answer is lost',
  },
]

/** Revealed only when a server's data is replaced. */
export const consulHistoryMutations: readonly ConsulMutation[] = [
  {
    name: 'a version contains only the index',
    file: keys,
    find: "return `${modifyIndex}-${createHash('sha256').update(value).digest('hex').slice(0, 16)}`",
    replace: 'return `${modifyIndex}`',
    caughtBy: 'a takeover is refused when the expired version belongs to another history',
  },
  {
    name: 'a transaction does not require the mark of the history',
    file: keys,
    find: "{ verb: 'get', key: history },",
    replace: "{ verb: 'set', key: history, value: '' },",
    caughtBy: 'a takeover is refused when the candidate saw another lease at the same index',
  },
]

/** Revealed only when a server checks tokens. */
export const consulAccessMutations: readonly ConsulMutation[] = [
  {
    name: 'a transaction that was denied counts as refused',
    file: 'stores/consul/failures.ts',
    find: "const differs = /index is stale|failed index check|doesn't exist/",
    replace: "const differs = /index is stale|failed index check|doesn't exist|denied/",
    caughtBy: 'a token that may only read is reported',
  },
  {
    name: 'keys that the token may not read count as missing',
    file: client,
    find: "headers['x-consul-results-filtered-by-acls'] === 'true'",
    replace: "headers['x-consul-results-filtered-by-acls'] === 'never'",
    caughtBy: 'a token that may read the record but not the term is reported',
  },
  {
    name: 'an election without readable keys counts as never written',
    file: keys,
    find: 'if (folder.keys.length === 0) await',
    replace: 'if (!folder) await',
    caughtBy: 'a token that may not read the record is reported',
  },
]
