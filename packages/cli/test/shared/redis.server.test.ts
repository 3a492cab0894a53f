import { expect, onTestFinished, test, vi } from 'vitest'
import { freePort } from '../../../../test/servers/free-port.ts'
import { redis, redisWith } from '../../../../test/servers/redis.ts'
import { start } from '../../../../test/servers/server.ts'
import { describeWith } from '../../../../test/servers/suite.ts'
import { linesOf, run, temporaryFolder, tenure } from '../tenure.ts'

describeWith(redis, 'The command on Redis', (server) => {
  test('tenure run on Redis runs a job on one of two machines and hands over, and tenure leader shows the leader', async () => {
    const folder = temporaryFolder()
    const store = ['--store', server().url]
    const job = (name: string) => {
      const script = `echo ${name} >> job; sleep 60`
      const flags = [...store, '--ttl', '3s', '--identity', name]
      return tenure(['run', 'nightly', ...flags, '--', 'sh', '-c', script], { cwd: folder })
    }
    const patience = { timeout: 20_000, interval: 100 }
    const leads = (name: string) =>
      vi.waitUntil(async () => (await run(['leader', 'nightly', ...store])).out.includes(name), patience)
    const watch = tenure(['watch', 'nightly', ...store, '--json'])
    const one = job('one')
    await leads('one')
    const two = job('two')
    expect((await run(['groups', ...store, '--json'])).out).toContain('nightly')
    await vi.waitUntil(() => two.output.error !== '', patience)
    one.child.kill('SIGTERM')
    await one.ended
    await leads('two')
    two.child.kill('SIGTERM')
    await two.ended
    expect((await run(['leader', 'nightly', ...store])).code).toBe(1)
    const seen = () => linesOf(watch.output.out).map((line) => JSON.stringify(line))
    await vi.waitUntil(() => seen().some((line) => line.includes('two') && line.includes('released')), patience)
    watch.child.kill('SIGTERM')
    await watch.ended
  })

  test('tenure sidecar reports the leader of an election on Redis', async () => {
    const port = await freePort()
    tenure(['sidecar', 'payments', '--store', server().url, '--listen', `127.0.0.1:${port}`, '--identity', 'pod-a'])
    const answer = () =>
      fetch(`http://127.0.0.1:${port}/leader`).then(
        (response) => response.text(),
        () => '',
      )
    await vi.waitUntil(async () => (await answer()).includes('pod-a'), { timeout: 20_000, interval: 50 })
  })

  test('tenure doctor checks the settings of Redis', async () => {
    const flags = ['--store', server().url, '--ttl', '10m', '--calls', '5']
    const { code, out, error } = await run(['doctor', ...flags])
    expect({ code, error }).toEqual({ code: 0, error: '' })
    expect(out).toMatch(/^settings no problems with the settings of the server$/m)
    expect(out).toMatch(/^watch +shows a change after /m)
    expect(out).toMatch(
      /^race +16 concurrent creates: one winner in \d rounds?; 16 concurrent swaps: one winner in \d /m,
    )
  })

  test.each([
    ['maxmemory-policy', 'allkeys-lru', 69, /maxmemory-policy of this Redis is allkeys-lru/],
    ['appendonly', 'no', 1, /^Not safe.*\nappendonly is off: a restart of Redis loses everything/m],
  ])('tenure doctor reports the unsafe Redis setting %s %s', async (name, value, code, words) => {
    const unsafe = await start(redisWith({ [name]: value }))
    onTestFinished(() => unsafe.stop())
    const told = await run(['doctor', '--store', unsafe.url, '--ttl', '10m', '--calls', '1'])
    expect(told.code).toBe(code)
    expect(told.out + told.error).toMatch(words)
  })

  test('tenure explains errors from Redis', async () => {
    const wrong = await run(['leader', 'nightly', '--store', server().url.replace('//', '//nobody:wrong@')])
    expect(wrong).toMatchObject({ code: 69, error: expect.stringContaining('rejected the user name or the password') })
    const refused = await run(['leader', 'nightly', '--store', `redis://127.0.0.1:${await freePort()}`])
    expect(refused).toMatchObject({ code: 69, error: expect.stringContaining('Nothing is listening there') })
    for (const { error } of [wrong, refused]) expect(error).not.toMatch(/\n {4}at |wrong@/)
  })
})
