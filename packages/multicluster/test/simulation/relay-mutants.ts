import type { Mutation } from '../../../../test/mutants/mutant.ts'
import type { ClustersOptions } from './index.ts'

/** A planted mistake of the relay, or of what it works with, and the circumstances that bring it to light. */
export interface RelayMutant extends Mutation {
  readonly in?: Omit<ClustersOptions, 'seed'>
}

const relay = { package: 'multicluster' as const }
const documentOnly = { document: 1, candidates: 1 }
/** With enough quiet after each that somebody must lead again. */
const rareDeaths = { faults: ['candidate-gone'], faultEveryMs: 200_000, minutes: 30, clusters: 4 } as const

export const relayMutants: readonly RelayMutant[] = [
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
    name: 'take the answer of another id',
    file: 'multicluster/relayed-call.ts',
    find: 'if (answer?.id === id) this.#take?.(answer)',
    replace: 'void id\n    if (answer) this.#take?.(answer)',
    in: { document: 0 },
  },
  {
    name: 'count from the confirmation',
    file: 'election.ts',
    find: 'sentAtMs: flight.sentAtMs,',
    replace: 'sentAtMs: heldNow(s),',
    in: { document: 0, store: 'swap-watched', faults: ['candidate-fading'] },
  },
  {
    ...relay,
    name: 'take a lease of one duration for those who count from the confirmation',
    file: 'document.ts',
    find: 'const leaseDurationMs = 2 * heartbeat.leaseDurationMs',
    replace: 'const leaseDurationMs = heartbeat.leaseDurationMs',
    in: { ...documentOnly, store: 'swap-watched', faults: ['candidate-fading'] },
  },
  {
    ...relay,
    name: 'drop expiredVersion',
    file: 'passing-on.ts',
    find: '  return watched === undefined ? claim : { ...claim, expiredVersion: watched }',
    replace: '  const { expiredVersion: _, ...rest } = claim\n  void watched\n  return rest',
    also: [
      {
        file: 'passing-on.ts',
        find: '  const isOthers = !outcome.ok && own !== undefined && own !== passed.expiredVersion',
        replace: '  const isOthers = !outcome.ok && passed === undefined',
      },
    ],
    in: { document: 0, store: 'swap-watched', ...rareDeaths, clusters: 2, candidates: 2, relays: 1 },
  },
  {
    ...relay,
    name: 'renew for a silent candidate',
    file: 'heartbeats.ts',
    find: '      if (isObserved) this.#settle()\n',
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
    name: 'begin the observation before the version was seen',
    file: 'sights.ts',
    find: 'seenAtMs: before?.seenAtMs ?? nowMs,',
    replace: 'seenAtMs: before?.seenAtMs ?? sight?.seenAtMs ?? nowMs,',
    in: { document: 0, store: 'swap-watched' },
  },
  {
    ...relay,
    name: 'show the bare identity in every cluster',
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
    name: 'judge "theirs" by name',
    file: 'document.ts',
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
