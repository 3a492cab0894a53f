import type { Mutation } from '../../../../test/mutants/mutant.ts'
import type { ClustersOptions } from './index.ts'

/** A mutant that simulated clusters must detect with these options. */
export interface ClustersMutant extends Mutation {
  readonly in?: Omit<ClustersOptions, 'seed'>
}

/** A mutant that needs an order of events that is too rare in simulated clusters, so a check creates that order. */
export interface CheckedMutant extends Mutation {
  readonly caughtBy: string
}

const relay = { package: 'multicluster' as const }
const onlySpecOnly = { specOnly: 1, candidates: 1 }
/** Faults are rare enough that a candidate must lead again after each one. */
const rareDeaths = { faults: ['candidate-gone'], faultEveryMs: 200_000, minutes: 30, clusters: 4 } as const

export const clustersMutants: readonly ClustersMutant[] = [
  {
    ...relay,
    name: 'confirm a renewal before the call to the global store is answered',
    file: 'relay/resource-relay.ts',
    find: '      const answer = await this.#ask(request, tracked)\n',
    replace: `      const known = this.#versions.seen.view?.record
      const asked = this.#ask(request, tracked)
      asked.catch(() => undefined)
      const isKnown = request.call.verb === 'renew' && known?.attempt === request.call.claim.attempt
      const answer: GlobalAnswer = isKnown
        ? { outcome: { ok: true, record: known, validForMs: known.leaseDurationMs } }
        : await asked
`,
    in: { specOnly: 0, faults: ['relay-cut-from-global', 'global-fails'] },
  },
  {
    name: 'accept an answer with another request id',
    file: 'multicluster/relayed-call.ts',
    find: 'if (answer?.id === id) this.#take?.(answer)',
    replace: 'void id\n    if (answer) this.#take?.(answer)',
    in: { specOnly: 0 },
  },
  {
    name: 'count the lease from the confirmation instead of the request',
    file: 'engine/election.ts',
    find: 'sentAtMs: flight.sentAtMs,',
    replace: 'sentAtMs: heldNow(s),',
    in: { specOnly: 0, store: 'swap-watched', faults: ['candidate-fading'] },
  },
  {
    ...relay,
    name: 'use the lease duration instead of twice the duration for candidates that count from the confirmation',
    file: 'relay/spec-only-candidate.ts',
    find: 'const leaseDurationMs = 2 * heartbeat.leaseDurationMs',
    replace: 'const leaseDurationMs = heartbeat.leaseDurationMs',
    in: { ...onlySpecOnly, store: 'swap-watched', faults: ['candidate-fading'] },
  },
  {
    ...relay,
    name: 'drop expiredVersion',
    file: 'calls/relayed-acquire.ts',
    find: '  return watched === undefined ? claim : { ...claim, expiredVersion: watched }',
    replace: '  const { expiredVersion: _, ...rest } = claim\n  void watched\n  return rest',
    also: [
      {
        file: 'calls/relayed-acquire.ts',
        find: '  const isOthers = !outcome.ok && own !== undefined && own !== passed.expiredVersion',
        replace: '  const isOthers = !outcome.ok && passed === undefined',
      },
    ],
    in: { specOnly: 0, store: 'swap-watched', ...rareDeaths, clusters: 2, candidates: 2, relays: 1 },
  },
  {
    ...relay,
    name: 'renew the lease of a silent candidate',
    file: 'relay/spec-only-heartbeats.ts',
    find: '      if (isObserved) this.#observed(status.leader)\n',
    replace: `      const { current } = this
      if (isObserved && current && current.state === 'done') {
        const { leaseDurationMs } = current.heartbeat
        this.current = { ...current, state: 'open', tryAtMs: nowMs + leaseDurationMs / 3, endsAtMs: nowMs + leaseDurationMs }
      }
`,
    in: { ...onlySpecOnly, ...rareDeaths },
  },
  {
    name: 'start the observation before the version was observed',
    file: 'engine/observed-expiry.ts',
    find: 'const sight = before ?? { key, atMs: nowMs }',
    replace: 'const sight = before ?? { key, atMs: view?.seenAtMs ?? nowMs }',
    in: { specOnly: 0, store: 'swap-watched' },
  },
  {
    ...relay,
    name: 'show the identity without its cluster in every cluster',
    package: 'tenure',
    file: 'multicluster/protocol/holder-names.ts',
    find: 'return { holder: of === cluster && isIdentity(cluster, identity) ? identity : holder, cluster: of }',
    replace: 'return { holder: isIdentity(cluster, identity) ? identity : holder, cluster: of }',
    also: [
      {
        package: 'multicluster',
        file: 'status/status-patch.ts',
        find: 'return isConfirmed === (heard.term !== undefined) && (!isConfirmed || term === heard.term)',
        replace: 'void term, isConfirmed\n  return heard',
      },
    ],
    in: onlySpecOnly,
  },
  {
    ...relay,
    name: 'decide by name alone whose lease it is',
    file: 'relay/spec-only-candidate.ts',
    find: 'return attempt.startsWith(`document:${uid}:`) && isHeldIn(cluster, holder)',
    replace: 'void attempt, uid\n  return isHeldIn(cluster, holder)',
    in: { ...onlySpecOnly, faults: ['namesake'] },
  },
  {
    ...relay,
    name: 'write a lower term into the status',
    file: 'status/status-patch.ts',
    find: '  if (term < (status.term ?? 0)) return true\n',
    replace: '',
    in: { relays: 2, faults: ['relay-lossy', 'candidate-crash', 'candidate-stop'] },
  },
]

export const checkedMutants: readonly CheckedMutant[] = [
  {
    ...relay,
    name: 'lose a recreated resource when a read of the deleted one is answered late',
    file: 'status/status-writer.ts',
    find: 'if (isCurrent) this.#of.lose()',
    replace: 'this.#of.lose()',
    caughtBy: 'a recreated resource is served when a read of the deleted one is answered late',
  },
  {
    ...relay,
    name: 'go back to a deleted resource when a read of it is answered late',
    file: 'status/status-writer.ts',
    find: 'if (this.#isKnown(before)) this.#of.adopt(found, isCurrent)',
    replace: 'this.#of.adopt(found, isCurrent)',
    caughtBy: 'a recreated resource is served when a read of the deleted one is answered late',
  },
  {
    ...relay,
    name: 'go back to a deleted resource when a write to it is answered late',
    file: 'status/status-writer.ts',
    find: 'if (this.#isKnown(before)) this.#of.adopt(after, false)',
    replace: 'this.#of.adopt(after, false)',
    caughtBy: 'a recreated resource is served when a write to the deleted one is answered late',
  },
  {
    ...relay,
    name: 'drop a recreated resource when the watch reports the earlier deletion twice',
    file: 'relay/relay.ts',
    find: 'if (uid === undefined || uid === resource.uid) this.#drop(id)',
    replace: 'void uid\n    this.#drop(id)',
    caughtBy: 'a recreated resource is served when the watch reports the earlier deletion twice',
  },
  {
    ...relay,
    name: 'forget what happens while a status is written',
    file: 'relay/resource-relay.ts',
    find: 'onIdle: () => this.#isChanged && this.#advance(),',
    replace: 'onIdle: () => void this.#isChanged,',
    caughtBy: 'a recreated resource is served when a write to the deleted one is answered late',
  },
  {
    ...relay,
    name: 'write a status that was computed before it had to wait for its turn',
    file: 'status/status-writer.ts',
    find: 'this.#write(isForced, hasWaited ? undefined : patch),',
    replace: 'this.#write(isForced, hasWaited ? patch : patch),',
    caughtBy: 'a confirmation is computed again if its write had to wait for others',
  },
  {
    ...relay,
    name: 'take every state of a resource for the known one',
    file: 'relay/resource-relay.ts',
    find: 'return isSameVersion(this.#resource, version)',
    replace: 'return this.#resource?.uid === version.uid',
    caughtBy: 'a request is served that follows the status of an earlier one',
  },
  {
    ...relay,
    name: 'count the lease of a deleted record for no time when its duration is unknown',
    file: 'calls/relayed-acquire.ts',
    find: 'if (Math.max(ownDurationMs, lastDurationMs) > 0) {',
    replace: 'if (Math.max(ownDurationMs, lastDurationMs) >= 0) {',
    caughtBy: 'a relay that starts after the global record was deleted waits for the lease of the deleted record',
  },
  {
    ...relay,
    name: 'ignore the duration in the status when the record was deleted',
    file: 'relay/resource-relay.ts',
    find: 'noteDeleted(term, leaseDurationSeconds * 1_000)',
    replace: 'noteDeleted(term, leaseDurationSeconds * 0)',
    caughtBy: 'a relay that starts after the global record was deleted waits for the lease of the deleted record',
  },
  {
    ...relay,
    name: 'show a released lease as held again',
    file: 'status/status-patch.ts',
    find: 'return term === status.term && status.record?.released === true && !released',
    replace: 'void released\n  return false',
    caughtBy: 'a late answer to a read does not show a released lease as held again',
  },
  {
    ...relay,
    name: 'write a confirmation no matter how old it is',
    file: 'relay/resource-relay.ts',
    find: 'const heard = this.#heartbeats.heard(this.#now())',
    replace: 'const heard = this.#heartbeats.confirmation',
    caughtBy: 'a confirmation that was queued while the machine slept is discarded',
  },
  {
    ...relay,
    name: 'give the write of a confirmation the usual timeout',
    file: 'relay/resource-relay.ts',
    find: 'Math.min(writeMs, Math.max(1, this.#heartbeats.leftMs(this.#now())))',
    replace: 'writeMs',
    caughtBy: 'the write of a confirmation times out a tenth of the lease after its call was sent',
  },
]
