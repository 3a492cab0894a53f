import { expect, test } from 'vitest'
import { loadMutant, type Mutation } from '../../../../test/mutants/mutant.ts'
import { Journal } from '../../src/storage/journal.ts'
import { journalChecks, type OpenJournal } from './journal-checks.ts'

const open: OpenJournal = (...options) => new Journal(...options)

test.each(journalChecks)('$name', ({ run }) => run(open))

const journal = { package: 'service', file: 'storage/journal.ts' } as const
const appender = { package: 'service', file: 'storage/appender.ts' } as const

/** The check named by `by` must catch the mutant. */
const mutations: readonly (Mutation & { readonly by: string })[] = [
  {
    ...appender,
    name: 'a new batch is sent after an unsettled one',
    find: 'if (open) {',
    replace: 'if (open && !open) {',
    by: 'a batch that took effect without an answer is confirmed by a write before the next batch',
  },
  {
    ...journal,
    name: 'a batch is settled by a read instead of a write',
    find: 'const sending = next(',
    replace: `const { open } = this.#state
      const { batch } = open ? await this.#storage.head() : this.#state.head
      if (open) this.#state = { ...this.#state, open: undefined }
      if (batch === open?.batch.head.batch) this.#state = { ...this.#state, head: open.batch.head }
      const sending = next(`,
    by: 'the batch that replaces an abandoned one is repeated until it is answered, and nothing else is sent',
  },
  {
    ...appender,
    name: 'a batch is abandoned with a different batch each time',
    find: 'batch: isTaken ? open.batch : open.instead',
    replace: 'batch: isTaken ? open.batch : batchAfter(state, [], source)',
    by: 'the batch that replaces an abandoned one is repeated until it is answered, and nothing else is sent',
  },
  {
    ...journal,
    name: 'a check asks only the storage',
    find: 'await this.#sendAll(undefined)',
    replace: '',
    by: 'a check fails as long as the next write would',
  },
  {
    ...journal,
    name: 'a fenced batch counts as done',
    find: 'answer = await this.#storage.append(this.#state.head, batch)',
    replace: "answer = (await this.#storage.append(this.#state.head, batch)) && 'done'",
    by: 'the append of another writer ends the journal permanently',
  },
  {
    ...journal,
    name: 'a batch begins while another one is in flight',
    find: 'this.#answer(writes, await this.#append(writes))',
    replace: 'void this.#append(writes).then((failure) => this.#answer(writes, failure))',
    by: 'the journal appends one batch at a time, each with everything that arrived during the previous one',
  },
  {
    ...journal,
    name: 'a write is answered before its batch is stored',
    find: 'this.#answer(writes, await this.#append(writes))',
    replace: '{ this.#answer(writes, undefined); await this.#append(writes) }',
    by: 'a write is not answered before its batch is stored',
  },
  {
    ...appender,
    name: 'unheard records are left as they are',
    find: 'withGroups(unconfirmed, batch) :',
    replace: 'unconfirmed :',
    by: 'the records of a batch that took effect without an answer are replaced from memory before other writes',
  },
  {
    ...journal,
    name: 'all pending writes are sent regardless of the maximum of the storage',
    find: 'if (count > 0 && (count === groups || left < 0)) break',
    replace: 'void groups, left',
    by: 'no batch exceeds the maximum of the storage, in groups or in bytes',
  },
  {
    ...appender,
    name: 'an unsettled batch continues after the end',
    find: 'if (endReason) throw endReason',
    replace: 'if (endReason && !open) throw endReason',
    by: 'nothing is sent after the end of the journal, whatever was in flight',
  },
]

test.each(mutations)('the checks of the journal catch the mutant "$name"', async ({ by, ...mutation }) => {
  const mutant = await loadMutant<{ journal: typeof import('../../src/storage/journal.ts') }>(mutation, {
    journal: '../../service/src/storage/journal.ts',
  })
  const check = journalChecks.find(({ name }) => name === by)
  expect(check, by).toBeDefined()
  await expect(check?.run((...options) => new mutant.journal.Journal(...options))).rejects.toThrow()
})
