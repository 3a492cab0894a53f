import { pathToFileURL } from 'node:url'
import { createShards } from 'tenure/shards'
import { fileStore } from 'tenure/stores/file'
import { expect, onTestFinished, test } from 'vitest'
import { linesOf, run, temporaryFolder } from '../../tenure.ts'

test('tenure shards shows the members and the shards of a group, and shows no owners after all processes have stopped', async () => {
  const directory = temporaryFolder()
  const store = fileStore({ directory })
  const url = pathToFileURL(directory).href
  const names = ['eu', 'us', 'asia']
  const shards = createShards({ store, group: 'regions', names, identity: 'node-a', metadata: { zone: 'az-a' } })
  onTestFinished(async () => {
    await shards.stop()
    await store.close?.()
  })
  await shards.start()
  await expect.poll(() => shards.status().owned.length, { timeout: 20_000 }).toBe(3)
  const people = await run(['shards', 'regions', '--store', url])
  expect(people).toMatchObject({ code: 0, error: '' })
  expect(people.out).toMatch(
    /^3 shards, 3 owned\. Coordinator: node-a\n\nNODE +LIVE +SEAT +OWNED +REVOKED +METADATA\nnode-a +yes +0 +3 +0 +\{"zone":"az-a"\}\n$/,
  )
  const { out } = await run(['shards', 'regions', '--store', url, '--json'])
  const token = shards.owns('eu')?.token
  expect(linesOf(out)).toMatchObject([
    { type: 'group', coordinator: 'node-a', shards: 3 },
    { type: 'member', identity: 'node-a', owned: 3, revoked: 0, live: true },
    ...names.map((name, shard) => ({ type: 'shard', shard, name, state: 'owned', owner: 'node-a', token })),
  ])
  await shards.stop()
  const after = await run(['shards', 'regions', '--store', url])
  expect(after).toMatchObject({ code: 1, error: '' })
  expect(after.out).toMatch(/^3 shards, 0 owned\. There is no coordinator\.\n[^]*\n {2}eu: there is no coordinator\n/)
})

test('tenure shards says that a group has no shards, with exit code 1', async () => {
  const url = pathToFileURL(temporaryFolder()).href
  expect(await run(['shards', 'regions', '--store', url])).toEqual({
    code: 1,
    out: '"regions" has no shards. No process has started them under this name.\n',
    error: '',
  })
})
