import { expect, test } from 'vitest'
import { loadMutant, type Mutation } from '../../../../test/mutants/mutant.ts'
import { Journal } from '../../src/storage/journal.ts'
import { journalChecks, type OpenJournal } from './journal-checks.ts'

const open: OpenJournal = (...options) => new Journal(...options)

test.each(journalChecks)('$name', ({ run }) => run(open))

const journal = { package: 'service', file: 'storage/journal.ts' } as const

/** Each must be noticed by the check that is named for it. */
const mutations: readonly (Mutation & { readonly by: string })[] = [
  {
    ...journal,
    name: 'send a new batch after an unsettled one',
    find: 'await this.#settle()\n      await this.#appendNext',
    replace: 'await this.#appendNext',
    by: 'a batch that was carried out unheard is confirmed by a write, and the next follows it',
  },
  {
    ...journal,
    name: 'settle by reading',
    find: 'const given = await this.#send(instead)',
    replace: `const found = await this.#storage.head()
    if (found.batch === batch.head.batch) return this.#follow(batch, 'done')
    this.#unsettled = undefined
    if (found) return
    const given = 'fenced' as Appended`,
    by: 'what gives a batch up is repeated until it is answered, and nothing else is sent',
  },
  {
    ...journal,
    name: 'give a batch up by another batch each time',
    find: 'async #settleBatch({ batch, instead }: Unsettled): Promise<void> {',
    replace: `async #settleBatch({ batch }: Unsettled): Promise<void> {
    const instead = this.#next([])`,
    by: 'what gives a batch up is repeated until it is answered, and nothing else is sent',
  },
  {
    ...journal,
    name: 'check the storage alone',
    find: 'await this.#settle()\n    this.#assertGoesOn()',
    replace: 'this.#assertGoesOn()',
    by: 'a check fails as long as the next write would',
  },
  {
    ...journal,
    name: 'take a fenced batch for done',
    find: "if (appended === 'fenced') {",
    replace: "if (appended !== 'fenced' && appended !== 'done') {",
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
    ...journal,
    name: 'leave what was unheard as it is',
    find: 'for (const { id } of batch.groups) this.#unheard.add(id)',
    replace: '',
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
    ...journal,
    name: 'go on with what was begun after the end',
    find: 'this.#assertGoesOn()\n    return this.#storage.append',
    replace: 'return this.#storage.append',
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
