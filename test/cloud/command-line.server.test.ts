import { beforeAll, expect, test, vi } from 'vitest'
import { linesOf, run, tenure } from '../../packages/cli/test/tenure.ts'
import { cloudEnvironment as env, clouds } from '../servers/cloud-emulators.ts'
import { describeWith } from '../servers/suite.ts'

const patience = { timeout: 30_000, interval: 20 }

for (const [name, cloud] of Object.entries(clouds)) {
  describeWith(cloud.kind, `the command line on ${name}`, (server) => {
    const flags = () => ['--store', cloud.urlAt(server().port)]
    beforeAll(() => cloud.prepare(server()))

    test('the command line runs a program while it leads, shows the leader and each change, and lists the elections', async () => {
      const watching = tenure(['watch', 'jobs', ...flags(), '--json'], { env })
      const types = () => linesOf(watching.output.out).map(({ type }) => type)
      await vi.waitUntil(() => types().length === 1, patience)
      const command = [process.execPath, '-e', 'console.log(process.env.TENURE_TERM); setInterval(() => {}, 1e3)']
      const chosen = [...flags(), '--identity', 'node-a', '--ttl', '30s']
      const running = tenure(['run', 'jobs', ...chosen, '--', ...command], { env })
      await vi.waitUntil(() => running.output.out === '1\n', patience)
      await vi.waitUntil(() => types().at(-1) === 'elected', patience)
      const leader = await run(['leader', 'jobs', ...flags(), '--json'], { env })
      expect({ code: leader.code, lines: linesOf(leader.out) }).toMatchObject({
        code: 0,
        lines: [{ election: 'jobs', leader: { holder: 'node-a', term: 1 } }],
      })
      const groups = await run(['groups', ...flags(), '--json'], { env })
      expect(groups.code, groups.error).toBe(0)
      expect(linesOf(groups.out)).toEqual([expect.objectContaining({ election: 'jobs' })])
      running.child.kill('SIGTERM')
      await running.ended
      await vi.waitUntil(() => types().at(-1) === 'released', patience)
      expect(types().filter((type) => type !== 'renewed')).toEqual(['state', 'elected', 'released'])
    })

    test('tenure doctor reports the cloud store as safe', async () => {
      const { code, out, error } = await run(['doctor', ...flags(), '--ttl', '10m', '--calls', '5'], { env })
      expect({ code, error }, out).toEqual({ code: 0, error: '' })
      expect(out).toContain('Safe')
    })

    test('the command line reports an object that another program wrote, and an unreachable server', async () => {
      await cloud.put(server(), 'taken', 'something of another program')
      const taken = await run(['leader', 'taken', ...flags()], { env })
      expect(taken).toMatchObject({ code: 69, error: expect.stringContaining('"taken" cannot be used') })
      const nowhere = await run(['leader', 'jobs', '--store', cloud.urlAt(9)], { env })
      expect(nowhere).toMatchObject({ code: 69, error: expect.stringContaining('cannot be reached') })
      const wrong = await run(['leader', 'jobs', '--store', `${cloud.urlAt(9)}&colour=red`], { env })
      expect(wrong).toMatchObject({ code: 2, error: expect.stringContaining('it must be "') })
    })
  })
}
