/**
 * Tests that clients keep renewing, and that no lease lasts much too long, while one subject floods the service with
 * batches.
 */
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { once } from 'node:events'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { end } from '../../../../test/servers/process.ts'
import { serve } from '../../../cli/test/tenure.ts'
import { ask } from '../auth/service.ts'
import { passed, waitedForCpuMs } from '../flood-process.ts'
import { audience, claimsOf, ecKeys, issuer, jwkOf, signed } from '../auth/tokens.ts'
import { newDirectory } from '../service-process.ts'

const keys = ecKeys()
const tokenFor = (sub: string, tenure: object) =>
  signed({ alg: 'ES256', kid: 'one' }, claimsOf(sub, { tenure }), keys.privateKey)

/** 3.5 MB of meaningless keys. */
function junkKeys(): string {
  const keys = Array.from({ length: 99_000 }, (_, index) => `"${`key-${index}-`.padEnd(30, 'x')}":1`)
  return `{${keys.join()}}`
}

function batchOf(node_id: string, groups: string): string {
  const renewals = Array.from({ length: 20_000 }, (_, index) => ({
    group_id: `${groups}-${index}`,
    term: 1,
    extend_by_ms: 5_000,
  }))
  return JSON.stringify({ node_id, renewals })
}

async function scene(isAuthenticated: boolean) {
  const directory = newDirectory()
  const keysFile = join(directory, 'keys.json')
  writeFileSync(keysFile, JSON.stringify({ keys: [jwkOf(keys.publicKey, { kid: 'one', alg: 'ES256' })] }))
  const flags = ['--jwt-keys', keysFile, '--jwt-issuer', issuer, '--jwt-audience', audience]
  const { url, child } = await serve(join(directory, 'data'), isAuthenticated ? flags : [])
  return {
    url,
    waitedForCpuMs: () => waitedForCpuMs(child.pid),
    /** Begins the flood. Returns a function that ends it. */
    async flood(body: string, token: string) {
      const file = join(directory, 'body.json')
      writeFileSync(file, body)
      const script = join(import.meta.dirname, '../flood.mjs')
      const args = [script, url, '48', file, ...(isAuthenticated ? [token] : [])]
      const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] })
      onTestFinished(() => end(child, 'SIGKILL'))
      return async () => {
        const said = once(child.stdout, 'data')
        child.stdin.end()
        return JSON.parse(String((await said)[0])) as Record<string, number>
      }
    },
  }
}

const median = (values: readonly number[]) =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Infinity

/** A server that does nothing. Its latency shows how busy the machine is. */
async function startBare(): Promise<string> {
  const program = `require('node:http').createServer((_, answer) => answer.end('{}')).listen(0, '127.0.0.1', function () {
    console.log('http://127.0.0.1:' + this.address().port)
  })`
  const child = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'pipe', 'inherit'] })
  onTestFinished(() => end(child, 'SIGKILL'))
  return String((await once(child.stdout, 'data'))[0]).trim()
}

/** Measures how long renewals of another client take, until a lease of two seconds that nobody renews has ended. */
async function measure(url: string, waitedMs: () => number) {
  const bare = await startBare()
  const bareMs: number[] = []
  const token = tokenFor('other', { groups: ['other-*'] })
  const post = (path: string, body: object) => ask(url, token, 'POST', path, { node_id: 'other', ...body })
  expect(await post('/v1/groups/other-kept/campaign', { lease_ttl_ms: 60_000 })).toMatchObject({ status: 200 })
  const renewalsMs: number[] = []
  const timed = async () => {
    const sentMs = performance.now()
    const renewal = await post('/v1/groups/other-kept/renew', { term: 1, extend_by_ms: 60_000 })
    expect(renewal).toMatchObject({ status: 200 })
    const answeredMs = performance.now()
    renewalsMs.push(answeredMs - sentMs)
    await ask(bare, token, 'GET', '/')
    bareMs.push(performance.now() - answeredMs)
  }
  await timed()
  const won = await post('/v1/groups/other-lost/campaign', { lease_ttl_ms: 2_000 })
  const wonMs = performance.now()
  const waitedBeforeMs = waitedMs()
  expect(won).toMatchObject({ body: { is_leader: true } })
  const lasted = { ms: 0, starvedMs: 0 }
  const looking = (async () => {
    while (lasted.ms === 0) {
      const { body } = await ask(url, token, 'GET', '/v1/groups/other-lost/leader')
      if (body['leader'] === null) {
        lasted.ms = performance.now() - wonMs
        lasted.starvedMs = waitedMs() - waitedBeforeMs
      }
      await passed(20)
    }
  })()
  while (lasted.ms === 0 || renewalsMs.length < 50) {
    await timed()
    await passed(20)
  }
  await looking
  return {
    renewalMs: median(renewalsMs),
    lastedMs: lasted.ms,
    /** How long the service could not run during that lease because other processes used the CPUs. */
    starvedMs: lasted.starvedMs,
    bareMs: median(bareMs),
    slowestBareMs: Math.max(...bareMs),
  }
}

const noRights = tokenFor('flooder', {})
const otherRights = tokenFor('flooder', { groups: ['mine-*'] })

describe.each([
  ['with authentication', true],
  ['without authentication', false],
])('%s', (how, isAuthenticated) => {
  test.each([
    ['3.5 MB of meaningless keys', junkKeys(), noRights],
    ['3.5 MB of meaningless keys, by a subject with rights', junkKeys(), otherRights],
    ['20,000 groups of others, by a subject without rights', batchOf('flooder', 'other'), noRights],
    ['20,000 groups of others, by a subject with other rights', batchOf('flooder', 'other'), otherRights],
    ['20,000 groups in the name of another node', batchOf('other', 'other'), otherRights],
  ])('another client keeps renewing during a flood of %s', { timeout: 120_000 }, async (what, body, token) => {
    const { url, flood, waitedForCpuMs: waitedMs } = await scene(isAuthenticated)
    const stop = await flood(body, token)
    await passed(1_000)
    const measured = await measure(url, waitedMs)
    const answered = await stop()
    console.info(`${how}, ${what}:`, measured, answered)
    expect(measured.renewalMs).toBeLessThan(250 + 20 * measured.bareMs)
    // The service extends every lease while it cannot run. The bare server does not show that, because it hardly needs
    // a CPU.
    expect(measured.lastedMs).toBeLessThan(3_000 + 20 * measured.slowestBareMs + measured.starvedMs)
  })
})
