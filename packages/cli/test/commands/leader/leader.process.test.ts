import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { LeaseRecord } from 'tenure'
import { fileStore } from 'tenure/stores/file'
import { describe, expect, onTestFinished, test } from 'vitest'
import { campaign, linesOf, run, serve, temporaryFolder } from '../../tenure.ts'

const call = { signal: new AbortController().signal, timeoutMs: 10_000 }

/** Holds a lease in a folder until the test ends. */
async function holdIn(directory: string, leaseDurationMs = 60_000) {
  const store = fileStore({ directory })
  onTestFinished(() => store.close?.())
  const metadata = { zone: 'az-a' }
  const claim = { election: 'jobs', holder: 'node-a', attempt: 'a.1', leaseDurationMs, afterTerm: 0, metadata }
  const outcome = await store.acquire(claim, call)
  if (!outcome.ok) throw new Error('It was refused.')
  return { store, record: outcome.record }
}

describe('tenure leader', () => {
  test('tenure leader shows the leader in a folder, as a table and as JSON', async () => {
    const directory = temporaryFolder()
    const { store, record } = await holdIn(directory)
    const url = pathToFileURL(directory).href
    const people = await run(['leader', 'jobs', '--store', url])
    expect(people).toMatchObject({ code: 0, error: '' })
    expect(people.out).toMatch(/^ELECTION +LEADER +TERM .*\njobs +node-a +1 +\d+\.\ds of 60\.0s .*\{"zone":"az-a"\}\n$/)
    const { out } = await run(['leader', 'jobs', '--json'], { env: { TENURE_STORE: url } })
    const { holder, term, leaseDurationMs, acquiredAt, renewedAt, metadata, checkpoint } = record
    const shown = { holder, term, leaseDurationMs, acquiredAt, renewedAt, metadata, checkpoint }
    expect(linesOf(out)).toEqual([
      { election: 'jobs', leader: { ...shown, remainingMs: expect.any(Number) as number } },
    ])
    const { attempt, version } = record
    await store.release({ election: 'jobs', holder, attempt, term, version, leaseDurationMs }, call)
    expect(await run(['leader', 'jobs', '--store', url])).toMatchObject({
      code: 1,
      out: 'Nobody leads "jobs". node-a led last, in term 1.\n',
    })
    expect(linesOf((await run(['leader', 'jobs', '--store', url, '--json'])).out)).toEqual([
      { election: 'jobs', leader: null, previousLeader: shown },
    ])
  })

  test('tenure leader shows the leader in a service that requires a token', async () => {
    const { url } = await serve(temporaryFolder())
    expect(await run(['leader', 'jobs', '--store', url])).toMatchObject({ code: 1, out: 'Nobody leads "jobs".\n' })
    await campaign(url, 'jobs', 'node-b')
    const token = join(temporaryFolder(), 'token')
    writeFileSync(token, 'a.b.c')
    // A service without authentication accepts any identity.
    const { code, out } = await run(['leader', 'jobs', '--store', url, '--token-file', token, '--json'], {
      env: { TENURE_TOKEN: 'not this one' },
    })
    expect(code).toBe(0)
    expect(linesOf(out)).toMatchObject([{ election: 'jobs', leader: { holder: 'node-b', term: 1 } }])
  })

  test('tenure leader shows that a lease expired because nobody renewed it', async () => {
    const directory = temporaryFolder()
    const { store, record } = await holdIn(directory, 100)
    const ended = record.renewedAt + record.leaseDurationMs
    await expect.poll(() => Date.now() > ended).toBe(true)
    const { code, out } = await run(['leader', 'jobs', '--store', pathToFileURL(directory).href])
    expect({ code, out }).toEqual({ code: 1, out: 'Nobody leads "jobs". node-a led last, in term 1.\n' })
    await store.close?.()
  })
})

describe('tenure groups', () => {
  test('tenure groups lists the elections of a folder, as a table and as JSON, and reports unreadable records', async () => {
    const directory = temporaryFolder()
    const url = pathToFileURL(directory).href
    expect(await run(['groups', '--store', url])).toEqual({ code: 0, out: 'There are no elections.\n', error: '' })
    const { store, record } = await holdIn(directory)
    const other = await store.acquire({ ...claimOf(record), election: 'Odd name/ü', attempt: 'a.2' }, call)
    if (!other.ok) throw new Error('It was refused.')
    await store.release(heldClaim(other.record), call)
    writeFileSync(join(directory, 'broken.json'), '{')
    const people = await run(['groups', '--store', url])
    expect(people).toMatchObject({ code: 0, error: expect.stringMatching(/broken\.json": .*not JSON/) as string })
    const [head, ...rows] = people.out.trimEnd().split('\n')
    expect(head).toMatch(/^ELECTION +LEADER +TERM +LEASE LEFT$/)
    expect(rows.toSorted()).toEqual([
      expect.stringMatching(/^Odd name\/ü +- +1 +-$/),
      expect.stringMatching(/^jobs +node-a +1 +\d+\.\ds$/),
    ])
    const lines = linesOf((await run(['groups', '--store', url, '--json'])).out)
    expect(lines.toSorted((one) => (one['election'] === 'jobs' ? -1 : 1))).toMatchObject([
      { election: 'jobs', leader: { holder: 'node-a', term: 1 } },
      { election: 'Odd name/ü', leader: null, previousLeader: { holder: 'node-a' } },
    ])
  })

  test('tenure groups prints nothing for an unused store, and fails when the store is unavailable', async () => {
    expect(await run(['groups', '--store', 'memory:'])).toMatchObject({ code: 0, out: 'There are no elections.\n' })
    expect(await run(['groups', '--store', 'http://127.0.0.1:1'])).toMatchObject({ code: 69, out: '' })
  })
})

const heldClaim = ({ election, holder, attempt, term, version, leaseDurationMs }: LeaseRecord) => ({
  election,
  holder,
  attempt,
  term,
  version,
  leaseDurationMs,
})

const claimOf = ({ holder, attempt, leaseDurationMs, metadata }: LeaseRecord) => ({
  holder,
  attempt,
  leaseDurationMs,
  metadata,
  afterTerm: 0,
})
