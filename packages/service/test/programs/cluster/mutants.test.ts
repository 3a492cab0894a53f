import { describe, expect, test } from 'vitest'
import type { Edit, Mutation } from '../../../../../test/mutants/mutant.ts'
import { etcd } from '../../../../../test/servers/etcd.ts'
import { describeWith } from '../../../../../test/servers/suite.ts'
import { answerLostOnTheWay, appendAfterItsTime, questionsAfterAStall } from '../../cluster/traps.ts'
import { join } from 'node:path'
import { buildMutant } from '../../../../../test/mutants/mutant.ts'

/** Each is passed by the service itself; a replica with a mistake in it does not get by all of them. */
const traps = {
  async 'the active one stands still until another is active, and then is asked'(port: number, entry?: string) {
    const [renewed, campaigned, read] = await questionsAfterAStall({ members: [port], entry })
    const shown = (answer: typeof read) => answer?.body['leader'] ?? answer?.body['current_leader']
    // Each passes the questions on, or refuses: nobody is told of what was.
    return {
      'a renewal': renewed?.status === 200,
      'a refusal': (shown(campaigned) as { node_id?: string } | undefined)?.node_id === 'c',
      'a read': (shown(read) as { node_id?: string } | undefined)?.node_id === 'c',
    }
  },
  async 'an append arrives after another was active'(port: number, entry?: string) {
    const answer = await appendAfterItsTime({ members: [port], entry })
    return { 'a lost lease': answer?.status !== 200 }
  },
  async 'the answer to a campaign is lost between replicas'(port: number, entry?: string) {
    const answer = await answerLostOnTheWay({ members: [port], entry })
    return { 'a grant that nobody heard of': answer?.body['is_leader'] !== true }
  },
}

interface Mutant extends Mutation {
  readonly caughtWhen: keyof typeof traps
  readonly by: string
}

const place: Edit = {
  file: 'cluster/reign.ts',
  find: 'return this.#serves && this.isProven() ? this.#groups : undefined',
  replace: 'return this.#serves ? this.#groups : undefined',
}
const driver = { file: 'groups/group-driver.ts', find: 'if (!this.#authority.isProven()) return' }
const stall = 'the active one stands still until another is active, and then is asked'

const mutants: readonly Mutant[] = [
  {
    ...driver,
    name: 'a renewal does not ask whether this replica leads',
    replace: 'if (!ask.isRenewal && !this.#authority.isProven()) return',
    also: [place],
    caughtWhen: stall,
    by: 'a renewal',
  },
  {
    ...driver,
    name: 'a refusal does not ask whether this replica leads',
    replace: 'if (ask.isRenewal && !this.#authority.isProven()) return',
    also: [place],
    caughtWhen: stall,
    by: 'a refusal',
  },
  {
    ...driver,
    name: 'a read does not ask whether this replica leads',
    replace: 'if (ask.isRenewal && !this.#authority.isProven()) return',
    also: [place],
    caughtWhen: stall,
    by: 'a read',
  },
  {
    name: 'the head is not compared',
    file: 'storage/etcd-storage.ts',
    find: 'compare: [{ key: this.#headKey, value: over }],',
    replace: 'compare: over ? [] : [],',
    caughtWhen: 'an append arrives after another was active',
    by: 'a lost lease',
  },
  {
    name: 'the attempt is minted at the active one',
    file: 'cluster/link-verbs.ts',
    find: 'groups.campaign(claim, signal)',
    replace: 'groups.campaign({ ...claim, attempt: String(performance.now()) }, signal)',
    caughtWhen: 'the answer to a campaign is lost between replicas',
    by: 'a grant that nobody heard of',
  },
]

describeWith(etcd, 'replicas on etcd', (server) => {
  describe.each(Object.entries(traps))('when %s', (name, trap) => {
    test('tell nobody anything wrong', { timeout: 90_000 }, async () => {
      const found = await trap(server().port)
      expect(Object.values(found), JSON.stringify(found)).not.toContain(true)
    })

    const own = mutants.filter(({ caughtWhen }) => caughtWhen === name)
    test.each(own)('but do if $name', { timeout: 120_000 }, async ({ by, also = [], ...edit }) => {
      const entry = join(await buildMutant('service', [edit, ...also]), 'dist/index.js')
      // On a busy machine what should be late may be in time.
      let found: Readonly<Record<string, boolean>> = {}
      for (let tries = 0; tries < 3 && !found[by]; tries++) found = await trap(server().port, entry)
      expect(found).toMatchObject({ [by]: true })
    })
  })
})
