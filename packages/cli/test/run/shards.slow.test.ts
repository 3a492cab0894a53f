import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { buildMutant, type Mutation } from '../../../../test/mutants/mutant.ts'
import { expectNoShardOverlap, shardOverlaps, shardScenarios } from './shard-scene.ts'

interface Mutant extends Mutation {
  readonly caughtWhen: keyof typeof shardScenarios
}

const mutants: readonly Mutant[] = [
  {
    name: 'a shard is reported as finished before the process group of its command is gone',
    file: 'run/shard-executor.ts',
    find: '    const end = await run.ended\n',
    replace:
      "    const end = await Promise.race([run.ended, new Promise<Executed['end']>((resolve) => signal.addEventListener('abort', () => resolve({ type: 'unknown' })))])\n",
    caughtWhen: 'a shard moves to a wrapper that joins, and the command ignores SIGTERM',
  },
  {
    name: 'a shard is reported as finished when the first process of its command has exited',
    file: 'run/enforcer.ts',
    find: "    if (!this.#look()) this.end('SIGTERM', addMs(now(), this.#options.graceMs))\n",
    replace: '    this.stop()\n    this.#options.onGone()\n',
    caughtWhen: 'a wrapper hands over shards whose commands leave a process behind that ignores SIGTERM',
  },
  {
    name: 'the supervisor enforces the deadlines of one command only',
    file: 'run/supervisor.ts',
    find: "  answer({ type: 'started', run: id, session })",
    replace: "  if (runs.size > 1) enforcer.stop()\n  answer({ type: 'started', run: id, session })",
    caughtWhen: 'a wrapper is stopped for longer than its lease',
  },
  {
    name: 'the supervisor of a dead wrapper ends one command only, and exits with it',
    file: 'run/supervisor.ts',
    find: '  for (const { enforcer } of runs.values()) enforcer.kill()\n',
    replace: '  for (const { enforcer } of [...runs.values()].slice(0, 1)) enforcer.kill()\n',
    also: [
      {
        file: 'run/supervisor.ts',
        find: '    if (isOrphan && runs.size === 0) void',
        replace: '    if (isOrphan) void',
      },
    ],
    caughtWhen: 'a wrapper is killed while its commands have children in their own process groups',
  },
]

describe.each(Object.entries(shardScenarios))('when %s', (name, scenario) => {
  test(`no two commands of a shard run at the same time when ${name}`, { timeout: 90_000 }, async () => {
    expectNoShardOverlap(await scenario())
  })

  const own = mutants.filter(({ caughtWhen }) => caughtWhen === name)
  test.each(own)(`two commands of a shard run at once when ${name} and $name`, { timeout: 180_000 }, async (mutant) => {
    const command = join(await buildMutant('cli', [mutant, ...(mutant.also ?? [])]), 'bin/tenure.js')
    // On a busy machine the next command may start so late that the mutant does no harm.
    let found: ReturnType<typeof shardOverlaps> = []
    for (let tries = 0; tries < 3 && found.length === 0; tries++) found = shardOverlaps(await scenario(command))
    expect(found.length).toBeGreaterThan(0)
  })
})
