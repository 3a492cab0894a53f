/** Tests that a store that can be read but not written ends `tenure run`, instead of making it wait forever (G9). */
import { chmodSync, chownSync, mkdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test, vi } from 'vitest'
import { audience, claimsOf, ecKeys, issuer, jwkOf, signed } from '../../../service/test/auth/tokens.ts'
import { noOtherUser, otherUser, programForAll } from './other-user.ts'
import { scene, type Scene } from './scene.ts'
import { serve, temporaryFolder } from '../tenure.ts'

const short = ['--ttl', '1s', '--store-timeout', '1500ms']

/** Creates a folder of leases in which root has led, and which other users may read. */
async function ledByRoot(): Promise<{ on: Scene; leases: string }> {
  const on = scene()
  expect(await on.run(['--once', '--', 'true']).ended).toBe(0)
  const leases = join(on.folder, 'leases')
  for (const folder of [on.folder, leases]) chmodSync(folder, 0o755)
  for (const name of ['jobs.json', 'jobs.json.term', 'jobs.json.lock']) chmodSync(join(leases, name), 0o644)
  return { on, leases }
}

describe.skipIf(noOtherUser !== undefined)(`a folder of leases that another user owns${reason()}`, () => {
  test('tenure run exits with 69 and a reason when it may not write to the folder', async () => {
    const { on } = await ledByRoot()
    const { ended, output } = on.run([...short, '--', 'true'], { user: otherUser, command: programForAll() })
    expect(await ended).toBe(69)
    expect(output.error).toContain('The store can be read, but no write has succeeded for 1500ms.')
    expect(output.error).toMatch(/jobs\.json\.lock".*EACCES.*Allow this user/)
  })

  test('tenure run exits with 69 when it may write to the folder, but not to a lock file that another user left there', async () => {
    const { on, leases } = await ledByRoot()
    chmodSync(leases, 0o777)
    const { ended, output } = on.run([...short, '--', 'true'], { user: otherUser, command: programForAll() })
    expect(await ended).toBe(69)
    expect(output.error).toMatch(/can be read, .*jobs\.json\.lock".*EACCES/)
  })

  test('a standby that may not write keeps waiting while another candidate leads, and exits once nobody leads', async () => {
    const folder = temporaryFolder()
    chmodSync(folder, 0o755)
    const leases = join(folder, 'leases')
    mkdirSync(leases)
    chownSync(leases, 0, otherUser.gid)
    chmodSync(leases, 0o2770)
    const on = scene(`file://${leases}?shareWithGroup=true`)
    const leader = on.run(['--ttl', '1s', '--', 'sleep', '60'])
    await vi.waitUntil(() => leader.output.error.includes('in term 1'), { timeout: 20_000 })
    // The other user may only read.
    chmodSync(leases, 0o2750)
    const standby = on.run([...short, '--', 'true'], { user: otherUser, command: programForAll() })
    await vi.waitUntil(() => standby.output.error.includes('waiting'), { timeout: 20_000 })
    await new Promise((resolve) => setTimeout(resolve, 4_000))
    expect(standby.isOver()).toBe(false)
    leader.child.kill('SIGTERM')
    expect(await standby.ended).toBe(69)
    expect(standby.output.error).toContain('can be read, but no write has succeeded')
  })

  test('a leader that may no longer write ends its command and then exits with 69', async () => {
    const on = scene()
    const leases = join(on.folder, 'leases')
    chmodSync(on.folder, 0o755)
    mkdirSync(leases)
    chownSync(leases, otherUser.uid, otherUser.gid)
    const options = { user: otherUser, command: programForAll() }
    const { ended, output } = on.run([...short, '--', 'sh', '-c', 'echo begins; exec sleep 60'], options)
    await vi.waitUntil(() => output.out.includes('begins'), { timeout: 20_000 })
    expect(statSync(join(leases, 'jobs.json')).uid).toBe(otherUser.uid)
    chownSync(leases, 0, 0)
    chmodSync(leases, 0o755)
    chownSync(join(leases, 'jobs.json.lock'), 0, 0)
    expect(await ended).toBe(69)
    expect(output.error).toMatch(
      /The command gets SIG.*the command was ended by.*can be read, but no write has succeeded/s,
    )
  })
})

function reason(): string {
  return noOtherUser === undefined ? '' : ` (skipped: ${noOtherUser})`
}

test('tenure run with a read-only token exits with 69 at once, with and without a leader', async () => {
  const folder = temporaryFolder()
  const { publicKey, privateKey } = ecKeys()
  writeFileSync(join(folder, 'keys.json'), JSON.stringify(jwkOf(publicKey)))
  const jwt = ['--jwt-keys', join(folder, 'keys.json'), '--jwt-issuer', issuer, '--jwt-audience', audience]
  const { url } = await serve(join(folder, 'data'), jwt)
  const tokenOf = (node: string, rights: object) => {
    const file = join(folder, node)
    writeFileSync(file, signed({ alg: 'ES256' }, claimsOf(node, { tenure: rights }), privateKey))
    return ['--identity', node, '--token-file', file]
  }
  const on = scene(url)
  const reader = tokenOf('onlooker', { reader: true })
  // A timeout that the test never reaches, because this failure must end the run at once.
  const first = on.run([...reader, '--store-timeout', '10m', '--', 'true'])
  expect(await first.ended).toBe(69)
  expect(first.output.error).toMatch(/Ask the operator of the service for this permission/)
  const leader = on.work(tokenOf('leader', { groups: ['jobs'] }))
  await on.wrote('begin')
  expect(await on.run([...reader, '--store-timeout', '10m', '--', 'true']).ended).toBe(69)
  expect(leader.isOver()).toBe(false)
})
