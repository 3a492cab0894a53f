import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { resolveTimings } from 'tenure'
import { fileStore } from 'tenure/stores/file'
import { describe, expect, onTestFinished, test } from 'vitest'
import { audience, claimsOf, ecKeys, issuer, jwkOf, signed } from '../../../../service/test/auth/tokens.ts'
import { startProxy } from '../../../../../test/servers/proxy.ts'
import { diagnose, type Measurements } from '../../../src/commands/doctor/diagnosis.ts'
import { ask, linesOf, run, serve, temporaryFolder, tenure } from '../../tenure.ts'

const call = { signal: new AbortController().signal, timeoutMs: 10_000 }

const racedLine =
  /^race +16 concurrent creates: one winner in \d rounds?; 16 concurrent swaps: one winner in \d rounds?$/m

describe('tenure doctor', () => {
  test('tenure doctor reports a folder as safe with its measurements, and releases its election', async () => {
    const directory = temporaryFolder()
    const url = pathToFileURL(directory).href
    // A lease so long that it is safe even on a busy machine.
    const { code, out, error } = await run(['doctor', '--store', url, '--ttl', '10m', '--election', 'ward'])
    expect({ code, error }).toEqual({ code: 0, error: '' })
    expect(out).toMatch(/^store +file:.*: the store judges lease expiry; terms are durable$/m)
    expect(out).toMatch(/^latency +renew median \S+, p99 \S+ \(30 calls\); read median \S+, p99 \S+ \(30 calls\)$/m)
    expect(out).toMatch(/^watch +shows a change after /m)
    expect(out).toMatch(/^race +16 concurrent swaps: one winner in \d rounds?; creates not raced, because /m)
    expect(out).toMatch(/^timings +lease 10m: renewed every 200\.0s|^timings +lease 10m: renewed every 3\.3m/m)
    expect(out).toMatch(/\n\nSafe: leases of 10m hold with this store, measured from this machine\.\n$/)
    const store = fileStore({ directory })
    onTestFinished(() => store.close?.())
    expect(await store.read('ward', call)).toMatchObject({ released: true, term: 1 })
  })

  test('tenure doctor compares its clock with that of a service', async () => {
    const { url } = await serve(temporaryFolder())
    const { code, out } = await run(['doctor', '--store', url, '--ttl', '10m', '--calls', '5', '--json'])
    expect(code).toBe(0)
    const [found = {}] = linesOf(out)
    expect(found).toMatchObject({
      store: url,
      verdict: 'safe',
      terms: true,
      latency: { renew: { calls: 5, failed: 0 } },
      race: { racers: 16, swaps: { winners: 1, withoutWinner: 0, failed: 0 }, creates: null },
    })
    const { rate, uncertainty } = found['clock'] as { rate: number; uncertainty: number }
    expect(Math.abs(rate - 1)).toBeLessThanOrEqual(uncertainty + 0.01)
    const { body } = await ask(`${url}/v1/groups`)
    expect(body['groups']).toMatchObject([{ group_id: 'tenure-doctor', leader: null, highest_term: 1 }])
  })

  test('tenure doctor reports a service as unsafe when it is too slow for the lease, and suggests a longer lease', async () => {
    const { url } = await serve(temporaryFolder())
    const proxy = await startProxy(Number(new URL(url).port))
    onTestFinished(() => proxy.stop())
    proxy.set({ delayMs: 300 }, 'to-client')
    const args = ['doctor', '--store', `http://127.0.0.1:${proxy.port}`, '--ttl', '1s', '--calls', '5']
    const { code, out } = await run(args)
    expect(code).toBe(1)
    expect(out).toMatch(
      /\n\nNot safe: leases of 1s do not hold .*\n1 renewal in 100 takes .* Choose --ttl \d+s or longer\.\n/,
    )
  })

  test('tenure doctor keeps its lease during measurements that take longer than the lease', async () => {
    const { url } = await serve(temporaryFolder())
    const { out, error } = await run(['doctor', '--store', url, '--ttl', '2s', '--json'])
    expect(error).toBe('')
    const [found = {}] = linesOf(out)
    const { rate, uncertainty } = found['clock'] as { rate: number; uncertainty: number }
    expect(Math.abs(rate - 1)).toBeLessThanOrEqual(uncertainty + 0.01)
    expect(found).toMatchObject({ lost: 0, watch: { medianMs: expect.any(Number) as number } })
    const { body } = await ask(`${url}/v1/groups`)
    expect(body['groups']).toMatchObject([{ group_id: 'tenure-doctor', highest_term: 1 }])
  })

  test('tenure doctor reports a lost lease when the lease expires before its renewal is answered', async () => {
    const { url } = await serve(temporaryFolder(), ['--min-ttl', '100ms'])
    const proxy = await startProxy(Number(new URL(url).port))
    onTestFinished(() => proxy.stop())
    proxy.set({ delayMs: 250 }, 'to-client')
    const args = ['doctor', '--store', `http://127.0.0.1:${proxy.port}`, '--ttl', '200ms', '--calls', '1']
    const { code, out } = await run(args)
    expect(code).toBe(1)
    expect(out).toMatch(/\nThe lease expired \d+ times before a renewal arrived/)
    expect(out).toMatch(/Choose --ttl \d+s or longer\./)
    expect(out).not.toMatch(/clock rate is off|does not work/)
  })

  test('tenure doctor prints readable numbers, even for zero and one', async () => {
    const { url } = await serve(temporaryFolder())
    const service = await run(['doctor', '--store', url, '--ttl', '10m', '--calls', '1'])
    expect(service.out).toMatch(/^clock .* Time of day differs by \S+, which does not matter$/m)
    expect(service.out).not.toContain('-0.00 %')
    const memory = await run(['doctor', '--store', 'memory:', '--calls', '1'])
    expect(memory.out).toMatch(/^store +memory: the store judges/)
    expect(memory.out).toContain('(1 call)')
    expect(memory.out).toMatch(racedLine)
  })

  test.runIf(process.platform === 'linux')(
    'tenure doctor does not say that a folder was removed when the folder never existed',
    async () => {
      const { code, error } = await run(['doctor', '--store', 'file:///proc/nowhere'])
      expect(code).toBe(69)
      expect(error).toContain('The directory does not exist: create or restore it')
    },
  )

  test('tenure doctor forgets its election after each run, and several can run at the same time', async () => {
    const directory = temporaryFolder()
    const store = fileStore({ directory })
    onTestFinished(() => store.close?.())
    const examine = () => run(['doctor', '--store', pathToFileURL(directory).href, '--calls', '1'])
    expect(await examine()).toMatchObject({ code: 0, out: expect.stringMatching(racedLine) })
    expect(await examine()).toMatchObject({ code: 0 })
    expect(await store.read('tenure-doctor', call)).toBeUndefined()
    const other = { holder: 'a', attempt: 'a.1', leaseDurationMs: 60_000, afterTerm: 0, metadata: {} }
    expect(await store.acquire({ election: 'tenure-doctor', ...other }, call)).toMatchObject({ ok: true })
    expect(await examine()).toMatchObject({ code: 0 })
    expect(await store.read('tenure-doctor', call)).toMatchObject({ attempt: 'a.1', released: false })
    const records = readdirSync(directory).filter((name) => name.endsWith('.json'))
    expect(records).toEqual(['tenure-doctor.json'])
  })

  test('tenure doctor releases its lease when a signal ends it', async () => {
    const { url } = await serve(temporaryFolder())
    const { child, ended } = tenure(['doctor', '--store', url])
    const leads = async () => (await ask(`${url}/v1/groups/tenure-doctor/leader`)).body['leader']
    await expect.poll(leads, { timeout: 20_000 }).toMatchObject({ term: 1 })
    child.kill('SIGINT')
    expect(await ended).toBe(130)
    expect(await leads()).toBe(null)
  })

  test('tenure doctor ignores TENURE_ELECTION from the environment of a command', async () => {
    const folder = temporaryFolder()
    const store = pathToFileURL(folder).href
    const env = { TENURE_ELECTION: 'queue', TENURE_STORE: store, TENURE_CALLS: '1' }
    expect(await run(['doctor'], { env })).toMatchObject({ code: 0 })
    expect(readdirSync(folder).filter((name) => name.startsWith('queue'))).toEqual([])
  })

  test('tenure doctor does not disturb a running leader', async () => {
    const directory = temporaryFolder()
    const store = fileStore({ directory })
    onTestFinished(() => store.close?.())
    const claim = { election: 'jobs', holder: 'a', attempt: 'a.1', leaseDurationMs: 60_000, afterTerm: 0, metadata: {} }
    await store.acquire(claim, call)
    const { code, error } = await run(['doctor', '--store', pathToFileURL(directory).href, '--election', 'jobs'])
    expect(code).toBe(69)
    expect(error).toContain('did not grant a lease for jobs: a leads it in term 1.')
    expect(await store.read('jobs', call)).toMatchObject({ attempt: 'a.1', released: false })
  })

  test('tenure doctor says which right is missing, and for whom, and exits with 69', async () => {
    const folder = temporaryFolder()
    const keys = ecKeys()
    writeFileSync(join(folder, 'keys.json'), JSON.stringify(jwkOf(keys.publicKey)))
    const jwt = ['--jwt-keys', join(folder, 'keys.json'), '--jwt-issuer', issuer, '--jwt-audience', audience]
    const { url } = await serve(join(folder, 'data'), jwt)
    const nobody = await run(['doctor', '--store', url])
    expect(nobody.code).toBe(69)
    expect(nobody.error).toMatch(
      /^tenure: The read call failed\. The election service at http\S+ could not authenticate the caller \(401\)\..* --token-file/,
    )
    const token = signed({ alg: 'ES256', typ: 'JWT' }, claimsOf('node-1'), keys.privateKey)
    const stranger = await run(['doctor', '--store', url], { env: { TENURE_TOKEN: token } })
    expect(stranger.code).toBe(69)
    expect(stranger.error).toMatch(/denied the request \(403\)\. .*Ask the operator of the service for this permission/)
    const known = ['doctor', '--store', url, '--ttl', '10m', '--calls', '5', '--identity', 'node-1']
    const allowed = await run([...known, '--election', 'payments-doctor'], { env: { TENURE_TOKEN: token } })
    expect(allowed, allowed.error).toMatchObject({ code: 0 })
    for (const { out, error } of [nobody, stranger, allowed]) expect(out + error).not.toContain(token)
  })
})

describe('the diagnosis of the doctor', () => {
  const timings = resolveTimings({ leaseDurationMs: 15_000 })
  const latency = (p99Ms: number, failed = 0) => ({ calls: 30, failed, medianMs: 1, p99Ms, worstMs: p99Ms })
  const rounds = { rounds: 5, winners: 1, withoutWinner: 0, failed: 0 }
  const race = { racers: 16, swaps: rounds, creates: rounds }
  const seen = { clock: undefined, watching: { medianMs: 5 }, timings, race, settings: [] }
  const healthy: Measurements = { renew: latency(10), lost: 0, ...seen }
  const clock = (rate: number, uncertainty: number) => ({ rate, uncertainty, aheadMs: 0 })

  test.each([
    ['the store is healthy', {}, 'safe', undefined],
    ['a renewal takes half of its timeout', { renew: latency(1_250) }, 'safe', undefined],
    [
      'a renewal takes more than half of its timeout',
      { renew: latency(1_251) },
      'tight',
      /costs a retry\. Choose --ttl 20s or longer/,
    ],
    [
      'a renewal takes longer than its timeout',
      { renew: latency(2_501) },
      'unsafe',
      /would lose their leases\. Choose --ttl 45s or/,
    ],
    ['a renewal failed', { renew: latency(10, 1) }, 'tight', /1 of 30 renewals failed/],
    ['many renewals failed', { renew: latency(10, 4) }, 'unsafe', /4 of 30 renewals failed/],
    ['a lease was lost', { lost: 1 }, 'unsafe', /expired once before a renewal arrived/],
    ['a clock is 3 % fast', { clock: clock(1.03, 0.01) }, 'unsafe', /off by 3\.0 %/],
    ['a clock may be 3 % slow', { clock: clock(0.97, 0.03) }, 'safe', undefined],
    ['the store was not raced', { race: { why: 'it has one connection' } }, 'safe', undefined],
    [
      'three of 16 creates won',
      { race: { ...race, creates: { ...rounds, winners: 3 } } },
      'unsafe',
      /^16 concurrent creates had 3 winners: this server does not compare and swap atomically, so two processes could lead/,
    ],
    [
      'two of 16 swaps won',
      { race: { ...race, swaps: { ...rounds, winners: 2 } } },
      'unsafe',
      /^16 concurrent swaps had 2 winners/,
    ],
    [
      'no swap won in one round',
      { race: { ...race, swaps: { ...rounds, withoutWinner: 1 } } },
      'tight',
      /^16 concurrent swaps had no winner: candidates/,
    ],
    ['a setting is unsafe', { settings: [{ risk: 'unsafe', text: 'fsync is off.' }] }, 'unsafe', /^fsync is off\.$/],
    ['a setting is risky', { settings: [{ risk: 'tight', text: 'A pooler.' }] }, 'tight', /^A pooler\.$/],
    ['there is no watch', { watching: { why: 'it is forbidden' } }, 'tight', /wait for the next poll: it is forbidden/],
  ] as const)('the diagnosis has the right verdict and reason when %s', (_, found, verdict, reason) => {
    const said = diagnose({ ...healthy, ...found })
    expect(said.verdict).toBe(verdict)
    if (reason) expect(said.reasons).toEqual([expect.stringMatching(reason)])
    else expect(said.reasons).toEqual([])
  })
})
