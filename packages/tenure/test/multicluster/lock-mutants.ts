import type { Mutation } from '../../../../test/mutants/mutant.ts'

/** A mutant of the lock, and the check that must catch it. */
export interface LockMutation extends Mutation {
  readonly caughtBy: string
}

/** The checks must catch every one of these mutants. */
export const lockMutations: readonly LockMutation[] = [
  {
    name: 'a call accepts the answer to another id',
    file: 'multicluster/relayed-call.ts',
    find: 'if (answer?.id === id) this.#take',
    replace: 'if (answer && id) this.#take',
    caughtBy: 'a call returns when its own id is answered, and not before',
  },
  {
    name: 'a call accepts an answer from any key',
    file: 'multicluster/relayed-call.ts',
    find: 'const answer = Object.hasOwn(answers, key) ? answers[key] : undefined',
    replace:
      'const answer = answers[key]?.id === id ? answers[key] : Object.values(answers).find((one) => one.id === id)',
    caughtBy: 'a call returns when its own id is answered, and not before',
  },
  {
    name: 'a call accepts an answer that was in the status before the call',
    file: 'multicluster/relayed-store.ts',
    find: 'const id = this.#clock.randomId()',
    replace: 'const id = Object.values(place.view.newest?.status.answers ?? {})[0]?.id ?? this.#clock.randomId()',
    caughtBy: 'an earlier answer in the status does not answer a new call',
  },
  {
    name: 'an id is reused',
    file: 'multicluster/relayed-store.ts',
    find: 'const id = this.#clock.randomId()',
    replace: 'const id = `${this.#id}-${asked.claim.attempt}`',
    caughtBy: 'ids are never reused, and stores never share a key',
  },
  {
    name: 'two stores share a key',
    file: 'multicluster/relayed-store.ts',
    find: 'this.#id = clock.randomId()',
    replace: "this.#id = 'store'",
    caughtBy: 'ids are never reused, and stores never share a key',
  },
  {
    name: 'a call returns before it is answered',
    file: 'multicluster/relayed-store.ts',
    find: 'const result = await call.race(answer)',
    replace:
      'const result = asked.verb === "acquire" ? understand({ id, ok: false, highestTerm: 0 }) : await call.race(answer)',
    caughtBy: 'a call returns when its own id is answered, and not before',
  },
  {
    name: 'a request omits the expired version',
    file: 'multicluster/protocol/request-codec.ts',
    find: '...(expiredVersion !== undefined && { expiredVersion })',
    replace: '...(expiredVersion === null && { expiredVersion })',
    caughtBy: 'a request contains the whole claim and nothing of the previous one',
  },
  {
    name: 'a request omits that the record is absent',
    file: 'multicluster/protocol/request-codec.ts',
    find: '...(expiredVersion !== undefined && { expiredVersion })',
    replace: '...(expiredVersion && { expiredVersion })',
    caughtBy: 'a request contains the whole claim and nothing of the previous one',
  },
  {
    name: 'the version of an earlier request remains in the next one',
    file: 'multicluster/protocol/request-codec.ts',
    find: 'claim: { ...emptyFields(claimFields), ...request.claim }',
    replace: 'claim: request.claim',
    caughtBy: 'a request contains the whole claim and nothing of the previous one',
  },
  {
    name: 'a read does not refresh the heartbeat',
    file: 'multicluster/protocol/request-codec.ts',
    find: 'isCandidates(request) || silent.length > 0 ? heartbeatOf(request) : {}',
    replace: 'request.verb !== "read" && isCandidates(request) ? heartbeatOf(request) : {}',
    caughtBy: 'every request also refreshes the spec heartbeat, with the same time',
  },
  {
    name: "a call replaces another call's request that is in flight",
    file: 'multicluster/slots.ts',
    find: 'while (this.#taken.has(lane)) lane++',
    replace: '',
    caughtBy: 'concurrent calls use separate slots, and calls beyond eight wait for a slot',
  },
  {
    name: 'a grant of another attempt is accepted',
    file: 'multicluster/protocol/answer-codec.ts',
    find: ' && record.attempt === claim.attempt',
    replace: '',
    caughtBy: 'a malformed answer is ignored, and the call times out with a hint',
  },
  {
    name: 'a grant to a holder in another cluster is accepted',
    file: 'multicluster/protocol/answer-codec.ts',
    find: 'record.holder === claim.holder && ',
    replace: '',
    caughtBy: 'a malformed answer is ignored, and the call times out with a hint',
  },
  {
    name: 'a grant is accepted for longer than requested',
    file: 'multicluster/protocol/answer-codec.ts',
    find: 'ms > 0 && ms <= longestMs',
    replace: 'ms > 0 && ms < Infinity * longestMs',
    caughtBy: 'a malformed answer is ignored, and the call times out with a hint',
  },
  {
    name: 'each request of a call gets the whole timeout',
    file: 'multicluster/relayed-call.ts',
    find: 'return this.#bound.leftMs ?? 0',
    replace: 'return this.#timeoutMs',
    caughtBy: 'all requests of a call share one deadline',
  },
  {
    name: 'a silent watch is trusted',
    file: 'multicluster/relayed-call.ts',
    find: 'await this.#view.look(this.left())',
    replace: 'if (!this.#view.isLive) await this.#view.look(this.left())',
    caughtBy: 'a call finds its answer by reading the resource when the watch is silent or broken',
  },
  {
    name: 'a recreated resource is reported as one without a leader',
    file: 'multicluster/record-watch.ts',
    find: 'return this.#shownIn === uid ? undefined : this.#shown',
    replace: 'return undefined',
    caughtBy: 'a watch does not report that there is no leader when the resource is recreated',
  },
  {
    name: 'a replaced request is not written again',
    file: 'multicluster/relayed-call.ts',
    find: 'if (++this.#replaced <= mostReplaced) writeAgain?.()',
    replace: 'void writeAgain',
    caughtBy: 'a call writes its request again when the late write of an abandoned call replaces it',
  },
  {
    name: 'a request is written again because of an earlier state',
    file: 'multicluster/relayed-call.ts',
    find: 'generation <= written.generation || ',
    replace: 'generation === written.generation || ',
    caughtBy: 'a call does not write its request again because of an earlier state',
  },
]
