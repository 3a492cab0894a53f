import { expect, test } from 'vitest'
import { loadMutant } from '../../../../test/mutants/mutant.ts'
import { passes } from '../../../../test/mutants/passes-check.ts'
import * as queue from '../../src/groups/campaign-queue.ts'
import * as group from '../../src/groups/in-memory-group.ts'
import * as members from '../../src/groups/members.ts'
import * as rules from '../../src/groups/rules.ts'
import * as feed from '../../src/watch/feed.ts'
import * as presence from '../../src/watch/presence.ts'
import { groupChecks, type GroupModules } from './group-checks.ts'
import { groupMutations } from './group-mutants.ts'

const sound: GroupModules = { group, queue, rules, members, feed, presence }
const below = '../../service/src'
const files = {
  group: `${below}/groups/in-memory-group.ts`,
  queue: `${below}/groups/campaign-queue.ts`,
  rules: `${below}/groups/rules.ts`,
  members: `${below}/groups/members.ts`,
  feed: `${below}/watch/feed.ts`,
  presence: `${below}/watch/presence.ts`,
}

test.for(groupMutations.map((mutation) => [mutation.name, mutation] as const))(
  'the checks of groups catch the mutant "%s"',
  async ([, mutation]) => {
    const check = groupChecks[mutation.caughtBy]
    if (!check) throw new Error(`There is no check "${mutation.caughtBy}".`)
    const broken = await loadMutant<GroupModules>({ ...mutation, package: 'service' }, files)
    expect(await passes(() => check(sound))).toBe(true)
    expect(await passes(() => check(broken))).toBe(false)
  },
)
