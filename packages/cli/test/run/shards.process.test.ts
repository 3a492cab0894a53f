import { readFileSync } from 'node:fs'
import { describe, expect, test, vi } from 'vitest'
import { runs, scene } from './scene.ts'
import { expectNoShardOverlap, shardScenarios, shardScene } from './shard-scene.ts'
import { linesOf, tenure } from '../tenure.ts'

const sh = (script: string) => ['--', 'sh', '-c', script]
const patience = { timeout: 40_000, interval: 20 }

describe('tenure run --shards', () => {
  test('three processes share six shards, and the others take over the shards of one that is killed', async () => {
    const fleet = shardScene(6)
    const wrappers = new Map(['ada', 'bob', 'eve'].map((name) => [name, fleet.join(name)]))
    await fleet.settled('ada', 'bob', 'eve')
    const supervisor = wrappers.get('eve')?.supervisor() ?? 0
    const lost = [...fleet.newest().values()].filter(({ identity }) => identity === 'eve')
    expect(lost).toHaveLength(2)
    wrappers.get('eve')?.child.kill('SIGKILL')
    await vi.waitUntil(() => !lost.some(({ pid }) => runs(pid)), patience)
    await fleet.settled('ada', 'bob')
    await vi.waitUntil(() => !runs(supervisor), patience)
    expectNoShardOverlap(fleet.on.lines())
    // The other commands were not disturbed.
    const begun = fleet.on.lines().filter(({ what }) => what === 'begin')
    expect(begun.length).toBeLessThanOrEqual(14)
    for (const name of ['ada', 'bob']) {
      wrappers.get(name)?.child.kill('SIGTERM')
      expect(await wrappers.get(name)?.ended).toBe(0)
    }
    expectNoShardOverlap(fleet.on.lines())
  })

  test('a shard is handed over on SIGTERM only after the whole process group of its command is gone', async () => {
    const hands = 'a wrapper hands over shards whose commands leave a process behind that ignores SIGTERM'
    expectNoShardOverlap(await shardScenarios[hands]())
  })

  test('a command gets its shard, its token and a file that describes the lease, and no credentials', async () => {
    const on = scene()
    const script =
      'echo "$TENURE_ELECTION $TENURE_IDENTITY $TENURE_SHARD $TENURE_TOKEN $TENURE_SHARDS:$TENURE_TERM"; cat "$TENURE_FENCE_FILE"'
    const args = ['run', '--store', on.store, '--identity', 'node-17', '--restart', 'never', '--json', ...sh(script)]
    const env = { TENURE_SHARDS: 'imports:1', TENURE_TOKEN: 'secret', TENURE_TERM: '7' }
    const { child, ended, output } = tenure(args, { env })
    await vi.waitUntil(() => output.error.includes('no command until it moves'), patience)
    child.kill('SIGTERM')
    expect(await ended).toBe(0)
    const [names = '', text = ''] = output.out.split('\n')
    expect(names).toMatch(/^imports node-17 0 \d+ :$/)
    const token = Number(names.split(' ')[3])
    expect(JSON.parse(text)).toMatchObject({ election: 'imports', identity: 'node-17', shard: 0, token })
    const shown = linesOf(output.error)
    expect(shown).toContainEqual(expect.objectContaining({ type: 'gained', shard: 0, token }))
    expect(shown).toContainEqual(expect.objectContaining({ type: 'exited', shard: 0, code: 0, signal: null }))
    expect(shown.every(({ message }) => typeof message === 'string')).toBe(true)
  })

  test('a command that fails is restarted with the same token while its shard stays', async () => {
    const on = scene()
    const script = `echo "$TENURE_SHARD $TENURE_TOKEN" >> ${on.file}; exit 3`
    const args = ['run', '--shards', 'imports:2', '--store', on.store, '--restart-delay', '50ms', ...sh(script)]
    const { child, ended, output } = tenure(args)
    const lines = () => (output.error === '' ? [] : readFileSync(on.file, { encoding: 'utf8', flag: 'a+' }).split('\n'))
    await vi.waitUntil(() => lines().length > 6, patience)
    expect(new Set(lines().filter((line) => line.startsWith('0 '))).size).toBe(1)
    expect(output.error).toContain('shard 0: the command exited with 3')
    child.kill('SIGINT')
    expect(await ended).toBe(130)
  })

  test('a process whose command cannot be started leaves the group with exit code 127', async () => {
    const on = scene()
    const { ended, output } = tenure(['run', '--shards', 'imports:2', '--store', on.store, '--', 'no-such-command'])
    expect(await ended).toBe(127)
    expect(output.error).toContain('command not found: no-such-command')
  })

  test('a process with another number of shards exits with 2', async () => {
    const on = scene()
    const first = tenure(['run', '--shards', 'imports:2', '--store', on.store, ...sh('sleep 60')])
    await vi.waitUntil(() => first.output.error.includes('owns shard 1'), patience)
    const { ended, output } = tenure(['run', '--shards', 'imports:3', '--store', on.store, ...sh('sleep 60')])
    expect(await ended).toBe(2)
    expect(output.error).toMatch(
      /^tenure: --shards is 3, but the other processes of the group "imports" use another value/,
    )
    first.child.kill('SIGTERM')
    expect(await first.ended).toBe(0)
  })

  test('a second signal kills all commands at once', async () => {
    const fleet = shardScene(2)
    const { child, ended, output } = fleet.join('only', { args: ['--drain-timeout', '1m'], worker: ['--stubborn'] })
    await fleet.settled('only')
    child.kill('SIGTERM')
    await vi.waitUntil(() => output.error.includes('got SIGTERM'), patience)
    await new Promise((resolve) => setTimeout(resolve, 300))
    child.kill('SIGTERM')
    expect(await ended).toBe(0)
    for (const { pid } of fleet.newest().values()) expect(runs(pid)).toBe(false)
  })

  test.each([
    [
      '--shards beside an election',
      ['queue', '--shards', 'g:2', '--store', 'memory:', '--', 'true'],
      /"queue" is before --/,
    ],
    [
      '--shards without a number',
      ['--shards', 'g', '--store', 'memory:', '--', 'true'],
      /--shards must be GROUP:N, such as/,
    ],
    [
      '--shards with more than 512 shards',
      ['--shards', 'g:513', '--store', 'memory:', '--', 'true'],
      /from 1 to 512, not "g:513"/,
    ],
    [
      '--shards with --once',
      ['--shards', 'g:2', '--once', '--store', 'memory:', '--', 'true'],
      /^tenure: --once .* with --shards/,
    ],
    ['--shards without a command', ['--shards', 'g:2', '--store', 'memory:'], /COMMAND is missing.*--shards GROUP:N/],
    [
      '--shards with 101 members',
      ['--shards', 'g:2', '--max-members', '101', '--store', 'memory:', '--', 'a'],
      /from 1 to 100/,
    ],
    ['--json without --shards', ['queue', '--json', '--store', 'memory:', '--', 'true'], /--json requires --shards/],
  ])('tenure run rejects %s', async (_, args, message) => {
    const { ended, output } = tenure(['run', ...args])
    expect(await ended).toBe(2)
    expect(output.error).toMatch(message)
  })
})
