import type { Mutation } from '../../../../test/mutants/mutant.ts'
import type { ReplicasOptions } from './index.ts'

/** A mutant of a replica or of its collaborators, and the options that expose it. */
export interface ReplicaMutant extends Mutation {
  readonly in?: Omit<ReplicasOptions, 'seed'>
}

const service = { package: 'service' as const }
const driver = { ...service, file: 'groups/group-driver.ts' }
const question = 'if (!this.#authority.isProven()) return this.#after(this.#authority.waitUntilProven(), ask)'
/** A replica that was paused finds calls in its sockets before it notices the pause. */
const halts = { faults: ['pause', 'sleep'], faultEveryMs: 5_000, tellsTerms: false } as const
const losses = { faults: ['lost-tail', 'crash', 'pause', 'stop'], faultEveryMs: 3_000 } as const
const copy = { ...service, file: 'replication/group-copy.ts' }
const warm = { faults: ['crash', 'stop', 'pause'], faultEveryMs: 3_000, keepsCopy: true } as const
/** Followers read commits that were never confirmed, and that a failover of the storage undoes. */
const undone = {
  faults: ['cancelled-commit', 'failover', 'crash', 'stop'],
  faultEveryMs: 1_500,
  keepsCopy: true,
} as const

export const replicaMutants: readonly ReplicaMutant[] = [
  {
    ...driver,
    name: 'a renewal is confirmed without a check of the authority',
    find: question,
    replace: question.replace('if (', 'if (!ask.overtakes && '),
    // The paused replica still has the lease that was resigned at its successor.
    in: { ...halts, stale: 0.6, resigns: 0.3 },
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
      return refuses ? this.stateOf(group, false) : this.#after(this.#authority.waitUntilProven(), ask)
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
    in: { ...halts, reads: 0.6 },
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
    replace: `const early: (readonly LoadedGroup[])[] = []
      for await (const page of (await this.#storage.load()).pages) early.push(page)
      Object.assign(this, { early })
      const head = await this.#takeOver()`,
    also: [
      {
        file: 'replication/active-term.ts',
        find: 'const loaded = await this.#storage.load()',
        replace:
          'const loaded = { head, pages: (this as unknown as { early: AsyncIterable<readonly LoadedGroup[]> }).early }',
      },
    ],
    in: { faults: ['late', 'slow-load'], faultEveryMs: 1_000, stale: 0.5, keepsCopy: false },
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
    name: 'a batch is settled by a read instead of a write',
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
    name: 'data loss is ignored',
    find: 'if (!lacks) return',
    replace: 'if (!lacks || lacks) return',
    in: losses,
  },
  {
    ...service,
    file: 'replication/data-loss.ts',
    name: 'data loss is forgotten at the next failover',
    find: 'if (!lacks) return { incarnation }',
    replace: 'if (!lacks) return { incarnation, heldMs: undefined }',
    in: losses,
  },
  {
    ...service,
    file: 'replication/warm-copy.ts',
    name: 'a copy is used without a comparison with the head',
    find: '} while (!copy.isAt(head))',
    replace: '} while (!copy.isLoaded)',
    also: [
      {
        file: 'replication/warm-copy.ts',
        find: 'await (copy.isLoaded ? copy.follow() : copy.loadPage())',
        replace: 'if (!copy.isLoaded) await copy.loadPage()',
      },
    ],
    in: warm,
  },
  {
    ...copy,
    name: 'a replica serves before it has read the newest part',
    find: 'while (this.#at.seq < newest) {',
    replace: `if (this.#isLoaded && this.#at.seq < newest) {
      const last = await this.#reads.batches(newest, newest)
      this.#at = last.get(newest) ?? this.#at
    }
    while (this.#at.seq < newest) {`,
    in: warm,
  },
  {
    ...copy,
    name: 'a loaded copy leaves out what was written while it was read',
    find: `this.#isLoaded = page.next === undefined
    await this.#catchUp()`,
    replace: `this.#isLoaded = page.next === undefined
    if (this.#isLoaded) this.#at = this.#newest`,
    in: { ...warm, faults: ['crash', 'slow-load'], faultEveryMs: 1_000 },
  },
  {
    ...copy,
    name: 'a copy follows a batch of another history',
    find: 'if (batch.after !== last.batch) throw',
    replace: 'if (batch.after === batch.batch) throw',
    also: [
      { file: copy.file, find: 'if ((this.#unproven.get(seq) ?? id) !== id) throw', replace: 'if (seq < 0) throw' },
      { file: copy.file, find: 'if (isBefore) throw', replace: 'if (seq < 0) throw' },
    ],
    in: undone,
  },
  {
    ...copy,
    name: 'a copy applies an older record after a newer one',
    find: 'await this.#add(page)',
    replace: `this.#note(page.head)
    const kept = ((this as unknown as { kept?: (typeof page)[] }).kept ??= [])
    kept.push(page)
    if (page.next === undefined) {
      await this.follow()
      for (const { parts } of kept) for (const part of parts) for (const group of part) this.groups.add(group)
    }`,
    also: [
      {
        file: 'groups/load-groups.ts',
        find: 'if (known && known.seq >= found.seq) return',
        replace: 'if (known && found.seq < 0) return',
      },
    ],
    in: { ...warm, faults: ['crash', 'stop', 'slow-load'], faultEveryMs: 1_500 },
  },
  {
    ...copy,
    name: 'a copy from before data loss is used',
    find: 'if (restores !== this.#restores) throw',
    replace: 'if (restores < 0) throw',
    in: { ...losses, keepsCopy: true },
  },
]
