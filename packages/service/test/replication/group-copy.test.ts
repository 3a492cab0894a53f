import { AssertionError } from 'node:assert'
import { expect, test } from 'vitest'
import { loadMutant, type Mutation } from '../../../../test/mutants/mutant.ts'
import * as groupCopy from '../../src/replication/group-copy.ts'
import { copyChecks, type CopyModule } from './copy-checks.ts'

test.each(copyChecks)('$name', ({ run }) => run(groupCopy))

const copy = { package: 'service', file: 'replication/group-copy.ts' } as const

/** The check named by `by` must catch the mutant. */
const mutants: readonly (Mutation & { readonly by: string })[] = [
  {
    ...copy,
    name: 'a copy counts as complete before all pages were read',
    find: 'return this.#isLoaded && isAt &&',
    replace: 'return isAt &&',
    by: 'a copy is complete once it has read all pages at the newest head',
  },
  {
    ...copy,
    name: 'a copy jumps to the newest head when its last page was read',
    find: `this.#isLoaded = page.next === undefined
    await this.#catchUp()`,
    replace: `this.#isLoaded = page.next === undefined
    if (this.#isLoaded) this.#at = this.#newest`,
    by: 'a copy contains what was written while its pages were read',
  },
  {
    ...copy,
    name: 'a copy skips batches',
    find: 'const to = Math.min(this.#at.seq + this.#reads.maxRead, newest)',
    replace: `const to = newest
      const last = await this.#reads.batches(newest - 1, newest - 1)
      this.#at = last.get(newest - 1) ?? this.#at`,
    by: 'a copy reads every batch after its head',
  },
  {
    ...copy,
    name: 'a copy continues after a batch that is not listed',
    find: 'const batch = listed.get(last.seq + 1)',
    replace: `const seq = last.seq + 1
      const after = last.batch
      const batch = listed.get(seq) ?? { seq, after, batch: '', ids: [] }`,
    also: [
      {
        file: copy.file,
        find: 'if (batch.after !== last.batch) throw',
        replace: 'if (batch.seq < 0) throw',
      },
    ],
    by: 'a copy breaks when a batch is no longer listed',
  },
  {
    ...copy,
    name: 'a copy follows a batch of another history',
    find: 'if (batch.after !== last.batch) throw',
    replace: 'if (batch.after === batch.batch) throw',
    by: 'a copy breaks when the batch that it is at was undone and others followed',
  },
  {
    ...copy,
    name: 'a copy accepts a head that is before an earlier one',
    find: 'if (isBefore) throw',
    replace: 'if (isBefore) return\n    if (seq < 0) throw',
    by: 'a copy breaks when the head goes back while it reads the groups of a batch, although the batch arrives again',
  },
  {
    ...copy,
    name: 'a copy keeps a record from a commit that was undone',
    find: 'if ((this.#unproven.get(seq) ?? id) !== id) throw',
    replace: 'if (seq < 0) throw',
    by: 'a copy breaks when a page was read from a commit that was undone',
  },
  {
    ...copy,
    name: 'a copy advances before it has read the groups of a batch',
    find: `await this.#read([...new Set(batches.flatMap(({ ids }) => ids))])
      this.#advance(batches)`,
    replace: `this.#advance(batches)
      await this.#read([...new Set(batches.flatMap(({ ids }) => ids))])`,
    by: 'a copy reads the groups of a batch again when the first read of them failed',
  },
  {
    ...copy,
    name: 'a copy skips a page that could not be read',
    find: 'const page = await this.#reads.page(this.#nextPage)',
    replace: `const from = this.#nextPage
    this.#nextPage = String(Number(from ?? 0) + 2)
    const page = await this.#reads.page(from)`,
    by: 'a copy continues at the page that could not be read',
  },
  {
    ...copy,
    name: 'a copy does not see that another replica has appended',
    find: 'return this.#newest.seq > seq ||',
    replace: 'return this.#newest.seq < 0 ||',
    by: 'a copy is not at a head that another batch has followed',
  },
  {
    ...copy,
    name: 'a copy from before data loss is used',
    find: 'if (restores !== this.#restores) throw',
    replace: 'if (restores < 0) throw',
    by: 'a copy breaks when the head has another count of restores',
  },
]

test.each(mutants)('the checks catch the mutant "$name"', async ({ by, ...mutation }) => {
  const mutant = await loadMutant<{ copy: CopyModule }>(mutation, {
    copy: '../../service/src/replication/group-copy.ts',
  })
  const check = copyChecks.find(({ name }) => name === by)
  expect(check, by).toBeDefined()
  await expect(check?.run(mutant.copy)).rejects.toThrow(AssertionError)
})
