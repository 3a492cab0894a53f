import type { Mutation } from '../../../../test/mutants/mutant.ts'
import type { ReplicasOptions } from './index.ts'

/** A mutant of a replica or of its collaborators, and the options that expose it. */
export interface ReplicaMutant extends Mutation {
  readonly in?: Omit<ReplicasOptions, 'seed'>
}

const service = { package: 'service' as const }
const driver = { ...service, file: 'groups/group-driver.ts' }
const question = 'if (!this.#authority.isProven()) return this.#after(this.#authority.soon(), ask)'
/** A replica that was paused finds calls in its sockets before it notices the pause. */
const halts = { faults: ['pause', 'sleep'], faultEveryMs: 5_000, tellsTerms: false } as const
const losses = { faults: ['lost-tail', 'crash', 'pause', 'stop'], faultEveryMs: 3_000 } as const

export const replicaMutants: readonly ReplicaMutant[] = [
  {
    ...driver,
    name: 'a renewal is confirmed without a check of the authority',
    find: question,
    replace: question.replace('if (', 'if (!ask.overtakes && '),
    in: halts,
  },
  {
    ...driver,
    name: 'a call is refused without a check of the authority',
    find: question,
    replace: '',
    also: [
      {
        file: driver.file,
        find: 'const ruling = ask.judge(group, now)',
        replace: `const ruling = ask.judge(group, now)
    if (!this.#authority.isProven()) {
      const refuses = 'answer' in ruling && (ruling.answer === 'refused' || ruling.answer === 'wait')
      return refuses ? this.standing(group, false) : this.#after(this.#authority.soon(), ask)
    }`,
      },
    ],
    in: halts,
  },
  {
    ...driver,
    name: 'a read is answered without a check of the authority',
    find: question,
    replace: question.replace('if (', 'if (ask.judge !== rules.judgeExpiry && '),
    in: halts,
  },
  {
    ...service,
    file: 'storage/storage.ts',
    name: 'a batch is appended without a comparison of the head',
    find: "isSameHead(found, expected) ? 'write' : 'fenced'",
    replace: "isSameHead(found, expected) || expected ? 'write' : 'fenced'",
    in: { faults: ['late', 'slow-load'], faultEveryMs: 1_000 },
  },
  {
    ...service,
    file: 'replication/active-term.ts',
    name: 'a replica loads before the swap',
    find: 'const head = await this.#takeOver()',
    replace: `const early: (readonly FoundGroup[])[] = []
      for await (const page of (await this.#storage.load()).pages) early.push(page)
      Object.assign(this, { early })
      const head = await this.#takeOver()`,
    also: [
      {
        file: 'replication/active-term.ts',
        find: 'const loaded = await this.#storage.load()',
        replace:
          'const loaded = { head, pages: (this as unknown as { early: AsyncIterable<readonly FoundGroup[]> }).early }',
      },
    ],
    in: { faults: ['late', 'slow-load'], faultEveryMs: 1_000, stale: 0.5 },
  },
  {
    ...service,
    file: 'groups/rules.ts',
    name: 'the last duration is honored instead of the longest promised one',
    find: 'const promisedMs = Math.max(lease.promisedMs, extendByMs)',
    replace: 'const promisedMs = extendByMs',
    in: { faults: ['stop', 'crash'], faultEveryMs: 5_000 },
  },
  {
    ...service,
    file: 'storage/journal.ts',
    name: 'a batch is settled by reading',
    find: 'const sending = next(',
    replace: `const { open } = this.#state
      const { batch } = open ? await this.#storage.head() : this.#state.head
      if (open) this.#state = { ...this.#state, open: undefined }
      if (batch === open?.batch.head.batch) this.#state = { ...this.#state, head: open.batch.head }
      const sending = next(`,
  },
  {
    ...service,
    file: 'storage/appender.ts',
    name: 'a new batch is sent after an unsettled one',
    find: 'if (open) {',
    replace: 'if (open && !open) {',
  },
  {
    ...service,
    file: 'replication/data-loss.ts',
    name: 'a data loss is ignored',
    find: 'if (!lacks) return',
    replace: 'if (!lacks || lacks) return',
    in: losses,
  },
  {
    ...service,
    file: 'replication/data-loss.ts',
    name: 'a data loss is forgotten at the next failover',
    find: 'if (!lacks) return { incarnation }',
    replace: 'if (!lacks) return { incarnation, heldMs: undefined }',
    in: losses,
  },
]
