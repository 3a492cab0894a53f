import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { fileStore } from 'tenure/stores/file'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { startProxy } from '../../../../../test/servers/proxy.ts'
import { ask, campaign, linesOf, run, serve, temporaryFolder, tenure, type Spawned } from '../../tenure.ts'
import { leadIn } from '../../lead-in-folder.ts'

const untilShown = (look: () => unknown) => vi.waitUntil(look, { timeout: 20_000, interval: 20 })

const typesOf = ({ output }: Spawned) => linesOf(output.out).map(({ type }) => type)

describe('tenure watch', () => {
  test('tenure watch --json prints each change in a folder as a line of JSON', async () => {
    const directory = temporaryFolder()
    const watching = tenure(['watch', 'jobs', '--store', pathToFileURL(directory).href, '--json'])
    await untilShown(() => typesOf(watching).length === 1)
    const first = await leadIn(directory, 'node-a')
    await untilShown(() => typesOf(watching).length === 2)
    await first.stop()
    await untilShown(() => typesOf(watching).length === 3)
    await leadIn(directory, 'node-b')
    await untilShown(() => typesOf(watching).length === 4)
    expect(linesOf(watching.output.out)).toMatchObject([
      { type: 'state', election: 'jobs', leader: null, at: expect.any(Number) as number },
      { type: 'elected', leader: { holder: 'node-a', term: 1, leaseDurationMs: 60_000 } },
      { type: 'released', leader: null, previousLeader: { holder: 'node-a', term: 1 } },
      { type: 'elected', leader: { holder: 'node-b', term: 2 } },
    ])
    expect(watching.output.error).toBe('')
  })

  test('tenure watch creates no folder, and finds the one that a candidate creates', async () => {
    const directory = join(temporaryFolder(), 'leases')
    const store = pathToFileURL(directory).href
    const note = `tenure: The folder ${directory} does not exist yet. Either nobody has campaigned there, or the name is wrong.\n`
    const asked = await run(['leader', 'jobs', '--store', store])
    expect(asked).toEqual({ code: 1, out: 'Nobody leads "jobs".\n', error: note })
    const watching = tenure(['watch', 'jobs', '--store', store, '--json'])
    await untilShown(() => typesOf(watching).length === 1)
    expect(existsSync(directory)).toBe(false)
    await leadIn(directory, 'node-a')
    await untilShown(() => typesOf(watching).length === 2)
    expect(typesOf(watching)).toEqual(['state', 'elected'])
    expect(watching.output.error).toBe(note)
  })

  test('tenure watch prints each change in a service as a line of text, and renewals with --renewals', async () => {
    const { url } = await serve(temporaryFolder())
    const watching = tenure(['watch', 'jobs', '--store', url, '--renewals'])
    const shown = (text: string) => untilShown(() => watching.output.out.includes(text))
    await shown('nobody leads jobs yet')
    await campaign(url, 'jobs', 'node-a')
    await shown('node-a was elected to lead jobs in term 1, with a lease of 30.0s')
    await ask(`${url}/v1/groups/jobs/renew`, { node_id: 'node-a', term: 1, extend_by_ms: 40_000 })
    await shown('node-a renewed term 1 for 40.0s')
    await ask(`${url}/v1/groups/jobs/resign`, { node_id: 'node-a', term: 1 })
    await shown('node-a no longer leads jobs: term 1 has ended')
    expect(watching.output.out).toMatch(/^(\d{4}-\d\d-\d\dT[\d:.]+Z {2}.+\n)+$/)
  })

  test('tenure watch notices that a lease expires because nobody renews it', async () => {
    const directory = temporaryFolder()
    const store = fileStore({ directory })
    onTestFinished(() => store.close?.())
    const signal = new AbortController().signal
    const claim = { election: 'jobs', holder: 'a', attempt: 'a.1', leaseDurationMs: 500, afterTerm: 0, metadata: {} }
    await store.acquire(claim, { signal })
    const watching = tenure(['watch', 'jobs', '--store', pathToFileURL(directory).href])
    await untilShown(() => watching.output.out.includes('a has not renewed term 1 for 500ms: its lease has expired'))
  })

  test('tenure watch reports an expired lease once, even when the service reports it too', async () => {
    const { url } = await serve(temporaryFolder())
    // The watch does not see the start of the first lease, which must last while the command starts on a busy machine.
    await campaign(url, 'jobs', 'node-a', { lease_ttl_ms: 8_000 })
    const half = async () =>
      (await ask(`${url}/v1/groups/jobs/leader`)).body['leader'] as { lease_remaining_ms: number }
    await expect.poll(async () => (await half()).lease_remaining_ms, { timeout: 20_000 }).toBeLessThan(7_500)
    const watching = tenure(['watch', 'jobs', '--store', url, '--json'])
    await untilShown(() => typesOf(watching).length === 2)
    for (const node of ['node-b', 'node-c', 'node-d']) {
      await campaign(url, 'jobs', node, { lease_ttl_ms: 2_000 })
      const ended = async () => (await ask(`${url}/v1/groups/jobs/leader`)).body['leader']
      await expect.poll(ended, { timeout: 20_000, interval: 20 }).toBe(null)
    }
    await campaign(url, 'jobs', 'node-e')
    await ask(`${url}/v1/groups/jobs/resign`, { node_id: 'node-e', term: 5 })
    await untilShown(() => typesOf(watching).at(-1) === 'released')
    const lost = ['elected', 'expired']
    expect(typesOf(watching)).toEqual(['state', 'expired', ...lost, ...lost, ...lost, 'elected', 'released'])
    expect(linesOf(watching.output.out)[1]).toMatchObject({ leader: null, previousLeader: { holder: 'node-a' } })
  })

  test('tenure watch reports the renewal of a lease that seemed to have expired', async () => {
    const { url } = await serve(temporaryFolder())
    const proxy = await startProxy(Number(new URL(url).port))
    onTestFinished(() => proxy.stop())
    await campaign(url, 'jobs', 'node-a', { lease_ttl_ms: 3_000 })
    const renew = () => ask(`${url}/v1/groups/jobs/renew`, { node_id: 'node-a', term: 1, extend_by_ms: 3_000 })
    const renewals = setInterval(() => void renew(), 300)
    onTestFinished(() => clearInterval(renewals))
    const watching = tenure(['watch', 'jobs', '--store', `http://127.0.0.1:${proxy.port}`, '--json'])
    await untilShown(() => typesOf(watching).length === 1)
    proxy.set('hold', 'to-client')
    await untilShown(() => typesOf(watching).at(-1) === 'expired')
    proxy.set('pass', 'to-client')
    await untilShown(() => typesOf(watching).length === 3)
    expect(linesOf(watching.output.out)[2]).toMatchObject({ type: 'renewed', leader: { holder: 'node-a', term: 1 } })
  })

  test('tenure watch continues when the service comes back', async () => {
    const folder = temporaryFolder()
    const first = await serve(folder)
    const watching = tenure(['watch', 'jobs', '--store', first.url, '--json'])
    await untilShown(() => typesOf(watching).length === 1)
    first.child.kill('SIGKILL')
    await first.ended
    await untilShown(() => watching.output.error.includes('Retrying.'))
    // This is enough time for more retries.
    await delay(2_000)
    const second = await serve(folder, ['--listen', new URL(first.url).host])
    await campaign(first.url, 'jobs', 'node-a')
    await untilShown(() => typesOf(watching).includes('elected'))
    const told = watching.output.error.trim().split('\n')
    expect(told.pop()).toBe('tenure: The store answers again.')
    // Each error is reported once, no matter how often it occurs.
    expect(new Set(told).size).toBe(told.length)
    expect(watching.child.exitCode).toBe(null)
    await ask(`${first.url}/v1/groups/jobs/resign`, { node_id: 'node-a', term: 1 })
    await untilShown(() => typesOf(watching).includes('released'))
    second.child.kill('SIGTERM')
    await second.ended
    await serve(folder, ['--listen', new URL(first.url).host])
    await campaign(first.url, 'jobs', 'node-b')
    await untilShown(() => typesOf(watching).at(-1) === 'elected')
    expect(typesOf(watching)).toEqual(['state', 'elected', 'released', 'elected'])
  })

  test('tenure watch exits with 69 when the store is unavailable at the start', async () => {
    const { ended, output } = tenure(['watch', 'jobs', '--store', 'http://127.0.0.1:1'])
    expect(await ended).toBe(69)
    expect(output).toMatchObject({ out: '', error: expect.stringContaining('ECONNREFUSED') as string })
  })

  test('tenure watch exits when nobody reads its output', async () => {
    const { url } = await serve(temporaryFolder())
    const { child, ended, output } = tenure(['watch', 'jobs', '--store', url, '--renewals'])
    await untilShown(() => output.out.includes('nobody leads'))
    child.stdout?.destroy()
    await campaign(url, 'jobs', 'node-a')
    expect(await ended).toBe(0)
  })
})
