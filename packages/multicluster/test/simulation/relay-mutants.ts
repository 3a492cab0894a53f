import type { Mutation } from '../../../../test/mutants/mutant.ts'
import type { ClustersOptions } from './index.ts'

/** Simulated clusters must detect it with these options. */
export interface ClustersMutant extends Mutation {
  readonly in?: Omit<ClustersOptions, 'seed'>
}

/** It needs an order of events that is too rare for simulated clusters, so a check creates that order. */
export interface CheckedMutant extends Mutation {
  readonly caughtBy: string
}

const relay = { package: 'multicluster' as const }
const documentOnly = { document: 1, candidates: 1 }
/** Faults are rare enough that a candidate must lead again after each. */
const rareDeaths = { faults: ['candidate-gone'], faultEveryMs: 200_000, minutes: 30, clusters: 4 } as const

export const clustersMutants: readonly ClustersMutant[] = [
  {
    ...relay,
    name: 'confirm before the global call',
    file: 'resource-relay.ts',
    find: '      const answer = await this.#ask(request, tracked)\n',
    replace: `      const known = this.#sighting.seen.sight?.record
      const asked = this.#ask(request, tracked)
      asked.catch(() => undefined)
      const isKnown = request.call.verb === 'renew' && known?.attempt === request.call.claim.attempt
      const answer: GlobalAnswer = isKnown
        ? { outcome: { ok: true, record: known, validForMs: known.leaseDurationMs } }
        : await asked
`,
    in: { document: 0, faults: ['relay-cut-from-global', 'global-fails'] },
  },
  {
    name: 'accept the answer to another request id',
    file: 'multicluster/relayed-call.ts',
    find: 'if (answer?.id === id) this.#take?.(answer)',
    replace: 'void id\n    if (answer) this.#take?.(answer)',
    in: { document: 0 },
  },
  {
    name: 'count the lease from the confirmation',
    file: 'engine/election.ts',
    find: 'sentAtMs: flight.sentAtMs,',
    replace: 'sentAtMs: heldNow(s),',
    in: { document: 0, store: 'swap-watched', faults: ['candidate-fading'] },
  },
  {
    ...relay,
    name: 'use the plain lease duration for candidates that count from the confirmation',
    file: 'spec-only-candidate.ts',
    find: 'const leaseDurationMs = 2 * heartbeat.leaseDurationMs',
    replace: 'const leaseDurationMs = heartbeat.leaseDurationMs',
    in: { ...documentOnly, store: 'swap-watched', faults: ['candidate-fading'] },
  },
  {
    ...relay,
    name: 'drop expiredVersion',
    file: 'relayed-acquire.ts',
    find: '  return watched === undefined ? claim : { ...claim, expiredVersion: watched }',
    replace: '  const { expiredVersion: _, ...rest } = claim\n  void watched\n  return rest',
    also: [
      {
        file: 'relayed-acquire.ts',
        find: '  const isOthers = !outcome.ok && own !== undefined && own !== passed.expiredVersion',
        replace: '  const isOthers = !outcome.ok && passed === undefined',
      },
    ],
    in: { document: 0, store: 'swap-watched', ...rareDeaths, clusters: 2, candidates: 2, relays: 1 },
  },
  {
    ...relay,
    name: 'renew for a silent candidate',
    file: 'spec-only-heartbeats.ts',
    find: '      if (isObserved) this.#observed(status.leader)\n',
    replace: `      const { current } = this
      if (isObserved && current && current.state === 'done') {
        const { leaseDurationMs } = current.heartbeat
        this.current = { ...current, state: 'open', tryAtMs: nowMs + leaseDurationMs / 3, endsAtMs: nowMs + leaseDurationMs }
      }
`,
    in: { ...documentOnly, ...rareDeaths },
  },
  {
    ...relay,
    name: 'start the observation before the version was observed',
    file: 'observed-versions.ts',
    find: 'seenAtMs: before?.seenAtMs ?? nowMs,',
    replace: 'seenAtMs: before?.seenAtMs ?? sight?.seenAtMs ?? nowMs,',
    in: { document: 0, store: 'swap-watched' },
  },
  {
    ...relay,
    name: 'show the identity without its cluster in every cluster',
    file: 'names.ts',
    find: 'return { holder: of === cluster && isIdentity(cluster, identity) ? identity : holder, cluster: of }',
    replace: 'return { holder: isIdentity(cluster, identity) ? identity : holder, cluster: of }',
    also: [
      {
        file: 'status.ts',
        find: 'return isConfirmed === (heard.term !== undefined) && (!isConfirmed || term === heard.term)',
        replace: 'void term, isConfirmed\n  return heard',
      },
    ],
    in: documentOnly,
  },
  {
    ...relay,
    name: 'judge whose lease it is by name',
    file: 'spec-only-candidate.ts',
    find: 'return attempt.startsWith(`document:${uid}:`) && isHeldIn(cluster, holder)',
    replace: 'void attempt, uid\n  return isHeldIn(cluster, holder)',
    in: { ...documentOnly, faults: ['namesake'] },
  },
  {
    ...relay,
    name: 'write a lower term into the status',
    file: 'status.ts',
    find: '  if (term < (status.term ?? 0)) return true\n',
    replace: '',
    in: { relays: 2, faults: ['relay-lossy', 'candidate-crash', 'candidate-stop'] },
  },
]

export const checkedMutants: readonly CheckedMutant[] = [
  {
    ...relay,
    name: 'lose a recreated resource when a read of the deleted one is answered late',
    file: 'status-writer.ts',
    find: 'if (isCurrent) this.#of.lose()',
    replace: 'this.#of.lose()',
    caughtBy: 'a recreated resource is served when a read of the deleted one is answered late',
  },
  {
    ...relay,
    name: 'go back to a deleted resource when a read of it is answered late',
    file: 'status-writer.ts',
    find: 'if (this.#isKnown(before)) this.#of.adopt(found, isCurrent)',
    replace: 'this.#of.adopt(found, isCurrent)',
    caughtBy: 'a recreated resource is served when a read of the deleted one is answered late',
  },
  {
    ...relay,
    name: 'go back to a deleted resource when a write to it is answered late',
    file: 'status-writer.ts',
    find: 'if (this.#isKnown(before)) this.#of.adopt(after, false)',
    replace: 'this.#of.adopt(after, false)',
    caughtBy: 'a recreated resource is served when a write to the deleted one is answered late',
  },
  {
    ...relay,
    name: 'drop a recreated resource when the deletion before it is shown twice',
    file: 'relay.ts',
    find: 'if (uid === undefined || uid === resource.uid) this.#drop(id)',
    replace: 'void uid\n    this.#drop(id)',
    caughtBy: 'a recreated resource is served when the deletion before it is shown twice',
  },
  {
    ...relay,
    name: 'show a released lease as held again',
    file: 'status.ts',
    find: 'return term === status.term && status.record?.released === true && !released',
    replace: 'void released\n  return false',
    caughtBy: 'a late answer to a read does not show a released lease as held again',
  },
  {
    ...relay,
    name: 'write a confirmation no matter how old it is',
    file: 'resource-relay.ts',
    find: 'const heard = this.#heartbeats.heard(this.#now())',
    replace: 'const heard = this.#heartbeats.confirmation',
    caughtBy: 'a confirmation that was queued while the machine slept is discarded',
  },
  {
    ...relay,
    name: 'give the write of a confirmation the usual timeout',
    file: 'resource-relay.ts',
    find: 'Math.min(writeMs, Math.max(1, this.#heartbeats.leftMs(this.#now())))',
    replace: 'writeMs',
    caughtBy: 'the write of a confirmation times out a tenth of the lease after its call was sent',
  },
]
