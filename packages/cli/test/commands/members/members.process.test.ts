import { pathToFileURL } from 'node:url'
import { Elector } from 'tenure'
import { fileStore } from 'tenure/stores/file'
import { expect, onTestFinished, test } from 'vitest'
import { linesOf, run, temporaryFolder } from '../../tenure.ts'

/** Starts candidates in a folder, and waits until each of them has a seat. */
async function present(...identities: string[]) {
  const directory = temporaryFolder()
  const store = fileStore({ directory })
  const electors = identities.map(
    (identity) =>
      new Elector({ store, election: 'jobs', identity, present: true, generation: 7, metadata: { zone: 'az-a' } }),
  )
  onTestFinished(async () => {
    await Promise.all(electors.map((elector) => elector.stop()))
    await store.close?.()
  })
  for (const elector of electors) {
    elector.start()
    await expect.poll(() => elector.explain().seat, { timeout: 20_000 }).toBeTypeOf('number')
  }
  return { url: pathToFileURL(directory).href, electors }
}

test('tenure members shows the leader and the standbys in a folder, as a table and as JSON', async () => {
  const { url, electors } = await present('node-a', 'node-b')
  const people = await run(['members', 'jobs', '--store', url])
  expect(people).toMatchObject({ code: 0, error: '' })
  expect(people.out).toMatch(
    /^NODE +ROLE +LIVE +LAST SEEN +SEAT +GENERATION +ELIGIBLE +METADATA\nnode-a +leader +yes +\S+Z +0 +7 +yes +\{"zone":"az-a"\}\nnode-b +candidate +yes +\S+Z +1 +7 +yes +\{"zone":"az-a"\}\n$/,
  )
  const { out } = await run(['members', 'jobs', '--store', url, '--json', '--observe', '1s'])
  const shown = { live: true, generation: 7, eligible: true, metadata: { zone: 'az-a' } }
  expect(linesOf(out)).toMatchObject([
    { node_id: 'node-a', role: 'leader', seat: 0, ...shown },
    { node_id: 'node-b', role: 'candidate', seat: 1, ...shown },
  ])
  await electors[0]?.stop()
  const rest = linesOf((await run(['members', 'jobs', '--store', url, '--json'])).out)
  expect(rest.map((member) => member['node_id'])).toEqual(['node-b'])
})

test('tenure members says that an election has no members, with exit code 1', async () => {
  const url = pathToFileURL(temporaryFolder()).href
  expect(await run(['members', 'jobs', '--store', url])).toEqual({
    code: 1,
    out: '"jobs" has no members. Only candidates that run with "present" are listed.\n',
    error: '',
  })
})
