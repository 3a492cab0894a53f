import type { Mutation } from '../../../../test/mutants/mutant.ts'

/** A fault in the lock, and the check that must notice it. */
export interface LockMutation extends Mutation {
  readonly caughtBy: string
}

/** Every one of them must be noticed. */
export const lockMutations: readonly LockMutation[] = [
  {
    name: 'a call takes the answer of another id',
    file: 'multicluster/relayed-call.ts',
    find: 'if (answer?.id === id) this.#take',
    replace: 'if (answer && id) this.#take',
    caughtBy: 'a call returns when its own id is answered, and not before',
  },
  {
    name: 'a call takes an answer from any key',
    file: 'multicluster/relayed-call.ts',
    find: 'const answer = Object.hasOwn(answers, key) ? answers[key] : undefined',
    replace:
      'const answer = answers[key]?.id === id ? answers[key] : Object.values(answers).find((one) => one.id === id)',
    caughtBy: 'a call returns when its own id is answered, and not before',
  },
  {
    name: 'a call is answered by the status as it was before',
    file: 'multicluster/relayed-store.ts',
    find: 'const id = this.#clock.randomId()',
    replace: 'const id = Object.values(place.view.newest?.status.answers ?? {})[0]?.id ?? this.#clock.randomId()',
    caughtBy: 'no call is answered by what was answered before',
  },
  {
    name: 'an id is used again',
    file: 'multicluster/relayed-store.ts',
    find: 'const id = this.#clock.randomId()',
    replace: 'const id = `${this.#id}-${asked.claim.attempt}`',
    caughtBy: 'no id is used twice, and no two stores share a key',
  },
  {
    name: 'two stores share a key',
    file: 'multicluster/relayed-store.ts',
    find: 'this.#id = clock.randomId()',
    replace: "this.#id = 'store'",
    caughtBy: 'no id is used twice, and no two stores share a key',
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
    name: 'the version that ran out is not passed on',
    file: 'multicluster/requests.ts',
    find: '...(expiredVersion !== undefined && { expiredVersion })',
    replace: '...(expiredVersion === null && { expiredVersion })',
    caughtBy: 'a request has the whole claim, and nothing of the one before',
  },
  {
    name: 'that the record is absent is not passed on',
    file: 'multicluster/requests.ts',
    find: '...(expiredVersion !== undefined && { expiredVersion })',
    replace: '...(expiredVersion && { expiredVersion })',
    caughtBy: 'a request has the whole claim, and nothing of the one before',
  },
  {
    name: 'the version of an earlier request stays in the next',
    file: 'multicluster/requests.ts',
    find: 'claim: { ...emptyClaim, ...request.claim }',
    replace: 'claim: request.claim',
    caughtBy: 'a request has the whole claim, and nothing of the one before',
  },
  {
    name: 'a read is no heartbeat',
    file: 'multicluster/requests.ts',
    find: 'isCandidates(request) || silent.length > 0 ? heartbeatOf(request) : {}',
    replace: 'request.verb !== "read" && isCandidates(request) ? heartbeatOf(request) : {}',
    caughtBy: 'every request is also a heartbeat of the document, with the same time',
  },
  {
    name: 'a call replaces the request of another that is under way',
    file: 'multicluster/lanes.ts',
    find: 'while (this.#taken.has(lane)) lane++',
    replace: '',
    caughtBy: 'calls at the same time have places of their own, and more than eight wait for one',
  },
  {
    name: 'a grant of another attempt is believed',
    file: 'multicluster/answers.ts',
    find: ' && record.attempt === claim.attempt',
    replace: '',
    caughtBy: 'what is not understood is no answer, and the deadline tells',
  },
  {
    name: 'a grant of another cluster’s holder is believed',
    file: 'multicluster/answers.ts',
    find: 'record.holder === claim.holder && ',
    replace: '',
    caughtBy: 'what is not understood is no answer, and the deadline tells',
  },
  {
    name: 'a grant is believed for longer than was asked for',
    file: 'multicluster/answers.ts',
    find: 'ms > 0 && ms <= longestMs',
    replace: 'ms > 0 && ms < Infinity * longestMs',
    caughtBy: 'what is not understood is no answer, and the deadline tells',
  },
  {
    name: 'each request of a call has the whole deadline',
    file: 'multicluster/relayed-call.ts',
    find: 'return this.#deadlineMs - this.#clock.monotonicMs()',
    replace: 'return this.#timeoutMs',
    caughtBy: 'one deadline holds for all the requests of a call',
  },
  {
    name: 'a silent watch is trusted',
    file: 'multicluster/relayed-call.ts',
    find: 'await this.#view.look(this.left())',
    replace: 'if (!this.#view.isLive) await this.#view.look(this.left())',
    caughtBy: 'a watch that is silent, or breaks off, is replaced by reads',
  },
  {
    name: 'a resource that was created again says that nobody leads',
    file: 'multicluster/record-watch.ts',
    find: 'return this.#shownIn === uid ? undefined : this.#shown',
    replace: 'return undefined',
    caughtBy: 'a resource that was created again does not tell that nobody leads',
  },
]
