import { expect, test } from 'vitest'
import { loadMutant, type Mutation } from '../../../../test/mutants/mutant.ts'
import { Journal } from '../../src/storage/journal.ts'
import { journalChecks, type OpenJournal } from './journal-checks.ts'

const open: OpenJournal = (...options) => new Journal(...options)

test.each(journalChecks)('$name', ({ run }) => run(open))

const journal = { package: 'service', file: 'storage/journal.ts' } as const
const appender = { package: 'service', file: 'storage/appender.ts' } as const

/** Each must be noticed by the check that is named for it. */
const mutations: readonly (Mutation & { readonly by: string })[] = [
  {
    ...appender,
    name: 'send a new batch after an unsettled one',
    find: 'if (open) {',
    replace: 'if (open && !open) {',
    by: 'a batch that was carried out unheard is confirmed by a write, and the next follows it',
  },
  {
    ...journal,
    name: 'settle by reading',
    find: 'const sending = next(',
    replace: `const { open } = this.#state
      const { batch } = open ? await this.#storage.head() : this.#state.head
      if (open) this.#state = { ...this.#state, open: undefined }
      if (batch === open?.batch.head.batch) this.#state = { ...this.#state, head: open.batch.head }
      const sending = next(`,
    by: 'what gives a batch up is repeated until it is answered, and nothing else is sent',
  },
  {
    ...appender,
    name: 'give a batch up by another batch each time',
    find: 'batch: isTaken ? open.batch : open.instead',
    replace: 'batch: isTaken ? open.batch : batchAfter(state, [], source)',
    by: 'what gives a batch up is repeated until it is answered, and nothing else is sent',
  },
  {
    ...journal,
    name: 'check the storage alone',
    find: 'await this.#sendAll(undefined)',
    replace: '',
    by: 'a check fails as long as the next write would',
  },
  {
    ...journal,
    name: 'take a fenced batch for done',
    find: 'answer = await this.#storage.append(this.#state.head, batch)',
    replace: "answer = (await this.#storage.append(this.#state.head, batch)) && 'done'",
    by: 'another writer ends it for good',
  },
  {
    ...journal,
    name: 'begin a batch while another is under way',
    find: 'this.#answer(writes, await this.#append(writes))',
    replace: 'void this.#append(writes).then((failure) => this.#answer(writes, failure))',
    by: 'one batch at a time, each with all that came meanwhile',
  },
  {
    ...journal,
    name: 'answer before the batch is there',
    find: 'this.#answer(writes, await this.#append(writes))',
    replace: '{ this.#answer(writes, undefined); await this.#append(writes) }',
    by: 'nobody is answered before the batch is there',
  },
  {
    ...appender,
    name: 'leave what was unheard as it is',
    find: 'withGroups(unheard, batch) :',
    replace: 'unheard :',
    by: 'what was carried out unheard is replaced by what memory has before anything else is written',
  },
  {
    ...journal,
    name: 'send all that waits, however much the storage takes',
    find: 'if (count > 0 && (count === groups || left < 0)) break',
    replace: 'void groups, left',
    by: 'no batch is larger than the storage takes, in number or in bytes',
  },
  {
    ...appender,
    name: 'go on with what was begun after the end',
    find: 'if (over) throw over',
    replace: 'if (over && !open) throw over',
    by: 'nothing more is sent after the end, whatever was under way',
  },
]

test.each(mutations)('a journal with the mistake "$name" is found out', async ({ by, ...mutation }) => {
  const mutant = await loadMutant<{ journal: typeof import('../../src/storage/journal.ts') }>(mutation, {
    journal: '../../service/src/storage/journal.ts',
  })
  const check = journalChecks.find(({ name }) => name === by)
  expect(check, by).toBeDefined()
  await expect(check?.run((...options) => new mutant.journal.Journal(...options))).rejects.toThrow()
})
