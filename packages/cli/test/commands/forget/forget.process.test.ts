import { readdirSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import type { LeaseRecord } from 'tenure'
import { fileStore } from 'tenure/stores/file'
import { describe, expect, onTestFinished, test } from 'vitest'
import { linesOf, run, serve, temporaryFolder } from '../../tenure.ts'

const call = { signal: new AbortController().signal, timeoutMs: 10_000 }

/** Creates a folder in which `election` is held. */
async function holdIn(directory: string, election: string) {
  const store = fileStore({ directory })
  onTestFinished(() => store.close?.())
  const claim = { election, holder: 'node-a', attempt: 'a.1', leaseDurationMs: 60_000, afterTerm: 0, metadata: {} }
  const outcome = await store.acquire(claim, call)
  if (!outcome.ok) throw new Error('It was refused.')
  const { record } = outcome
  return { store, release: () => store.release({ ...claim, ...versionOf(record) }, call) }
}

function versionOf({ term, version }: LeaseRecord) {
  return { term, version }
}

describe('tenure forget', () => {
  test('tenure forget removes a released record and keeps its term', async () => {
    const directory = temporaryFolder()
    const { release, store } = await holdIn(directory, 'import')
    await release()
    const url = pathToFileURL(directory).href
    expect(await run(['forget', 'import', '--store', url])).toMatchObject({
      code: 0,
      out: '"import" is forgotten. Its next term is above 1.\n',
      error: '',
    })
    expect(await store.read('import', call)).toBeUndefined()
    expect(readdirSync(directory).toSorted()).toEqual(['import.json.lock', 'import.json.term'])
    expect(await run(['forget', 'import', '--store', url])).toMatchObject({
      code: 0,
      out: 'There is no record of "import".\n',
    })
  })

  test('tenure forget --with-term also removes the highest term', async () => {
    const directory = temporaryFolder()
    await (await holdIn(directory, 'import')).release()
    const url = pathToFileURL(directory).href
    const { code, out } = await run(['forget', 'import', '--with-term', '--json', '--store', url])
    expect({ code, lines: linesOf(out) }).toEqual({
      code: 0,
      lines: [{ election: 'import', forgotten: true, term: 1, withTerm: true }],
    })
    expect(readdirSync(directory)).toEqual(['import.json.lock'])
  })

  test('tenure forget refuses a held election and leaves it unchanged', async () => {
    const directory = temporaryFolder()
    const { store } = await holdIn(directory, 'import')
    const before = await store.read('import', call)
    const answer = await run(['forget', 'import', '--with-term', '--store', pathToFileURL(directory).href])
    expect(answer).toMatchObject({ code: 1, out: '' })
    expect(answer.error).toContain('"node-a" holds "import" in term 1. Only a released election can be forgotten.')
    expect(await store.read('import', call)).toEqual(before)
  })

  test('tenure forget reports that the store cannot forget', async () => {
    const { url } = await serve(temporaryFolder())
    const answer = await run(['forget', 'import', '--store', url])
    expect(answer).toMatchObject({ code: 1, out: '' })
    expect(answer.error).toContain('cannot forget elections')
  })
})

test('tenure doctor leaves only a lock file in a folder', async () => {
  const directory = temporaryFolder()
  const url = pathToFileURL(directory).href
  const { code, error } = await run(['doctor', '--store', url, '--calls', '2'])
  expect({ code, error }).toEqual({ code: 0, error: '' })
  expect(readdirSync(directory)).toEqual(['tenure-doctor.json.lock'])
})
