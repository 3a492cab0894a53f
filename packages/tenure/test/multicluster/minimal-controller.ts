import { setMaxListeners } from 'node:events'
import { isTenureError } from '../../src/common/errors.ts'
import type {
  AcquireClaim,
  CallOptions,
  HeldClaim,
  LeaseRecord,
  LeaseStore,
  Outcome,
} from '../../src/engine/lease-store.ts'
import type {
  MultiClusterAnswer,
  MultiClusterLease,
  MultiClusterRequest,
  RelayedRecord,
} from '../../src/multicluster/protocol/resource-types.ts'
import type { Resources } from '../../src/multicluster/resources.ts'

/** Options of the relay, for tests of the lock alone. */
export interface RelayOptions {
  readonly cluster?: string
  readonly namespace?: string
  /** Changes an answer before it is written. If it returns undefined, the request stays unanswered. */
  answer?(answer: MultiClusterAnswer, request: MultiClusterRequest): MultiClusterAnswer | undefined
}

/** A minimal controller: it sends each request to the global store as one call and writes the answer. */
export function startRelay(resources: Resources, global: LeaseStore, options: RelayOptions = {}): { stop(): void } {
  const { cluster = 'east' } = options
  const ending = new AbortController()
  const call: CallOptions = { signal: ending.signal, timeoutMs: 5_000 }
  setMaxListeners(0, ending.signal)
  const taken = new Set<string>()

  const shown = (record: LeaseRecord): RelayedRecord => {
    const { election: _, metadata, expired: __, ...fields } = record
    const [from = '', ...identity] = record.holder.split('/')
    const holder = from === cluster ? identity.join('/') : record.holder
    return { ...fields, holder, cluster: from, metadata: JSON.stringify(metadata) }
  }

  const writeStatus = async (resource: MultiClusterLease, key: string | undefined, answer?: MultiClusterAnswer) => {
    const { generation: observedGeneration } = resource
    const record = await global.read(electionOf(resource), call)
    // A merge patch keeps fields that it does not name.
    const patchOf = (one: RelayedRecord | undefined) => (one ? { successor: null, ...one } : null)
    const status = { observedGeneration, record: patchOf(record && shown(record)) }
    const emptied = { ok: null, record: null, validForMs: null, highestTerm: null, retryAfterMs: null, error: null }
    const answers =
      key !== undefined && answer
        ? { answers: { [key]: { ...emptied, ...answer, record: patchOf(answer.record) } } }
        : {}
    await resources.patchStatus(resource, { ...status, ...answers }, undefined, call)
  }

  const carryOut = async (resource: MultiClusterLease, key: string, request: MultiClusterRequest) => {
    const answer = await answerTo(request)
    const given = options.answer ? options.answer(answer, request) : answer
    if (given) await writeStatus(resource, key, given)

    async function answerTo({ id, verb, claim }: MultiClusterRequest): Promise<MultiClusterAnswer> {
      const { metadata = '{}', ...fields } = claim
      const election = electionOf(resource)
      const own = { ...fields, election, holder: `${cluster}/${claim.holder}` }
      try {
        if (verb === 'read') {
          const record = await global.read(election, call)
          return { id, ok: true, ...(record && { record: shown(record) }) }
        }
        const outcome =
          verb === 'acquire'
            ? await global.acquire({ ...own, metadata: JSON.parse(metadata) } as AcquireClaim, call)
            : await global[verb](own as HeldClaim, call)
        return { ...answerOf(outcome), id }
      } catch (error) {
        if (!isTenureError(error)) throw error
        return { id, ok: false, error: { code: error.code, message: error.message } }
      }
    }
  }

  const answerOf = ({ record, ...outcome }: Outcome): Omit<MultiClusterAnswer, 'id'> => ({
    ...outcome,
    ...(record && { record: shown(record) }),
  })

  const watched = new Set<string>()
  const followGlobal = async (resource: MultiClusterLease) => {
    for await (const record of global.watch?.(electionOf(resource), call) ?? []) {
      const newest = await resources.get(resource, call)
      // The write of an answer already includes the record that the call changed.
      if (newest && newest.status.record?.version !== record?.version) await writeStatus(newest, undefined)
    }
  }

  const see = (resource: MultiClusterLease) => {
    for (const [key, request] of Object.entries(resource.spec.requests)) {
      if (taken.has(request.id)) continue
      taken.add(request.id)
      run(carryOut(resource, key, request))
    }
    if (watched.has(resource.uid)) return
    watched.add(resource.uid)
    run(followGlobal(resource))
  }

  // A failed request stays unanswered. A real controller would retry it.
  const run = (work: Promise<void>) => void work.catch(() => {})

  run(follow())
  return { stop: () => ending.abort() }

  async function follow(): Promise<void> {
    for await (const change of resources.watch({ namespace: options.namespace }, call)) {
      if (change.type === 'all') change.resources.forEach(see)
      else if (change.type === 'put') see(change.resource)
    }
  }
}

/** The name of the election in the global store. */
export function electionOf({ namespace, name, election = name }: MultiClusterLease): string {
  return `${namespace}/${election}`
}
