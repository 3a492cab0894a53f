import { describe, expect, test } from 'vitest'
import { memoryResources } from '../../src/multicluster/memory-resources.ts'
import { resourcesSuite, watchOf } from './resources-suite.ts'

const key = { namespace: 'jobs', name: 'nightly' }
const call = { signal: new AbortController().signal }

function scene() {
  let uids = 0
  return memoryResources(() => `uid-${++uids}`)
}

describe('resources in memory', () => {
  resourcesSuite(() => {
    const resources = scene()
    return { resources, namespace: 'jobs', delete: (given) => resources.delete(given) }
  })

  test('restoring a backup ends the watches and brings the previous state back', async () => {
    const resources = scene()
    await resources.create(key, { requests: {} }, undefined, call)
    const backup = resources.backup()
    const next = watchOf(resources, { namespace: 'jobs' })
    expect(await next()).toMatchObject({ type: 'all', resources: [{ name: 'nightly' }] })
    await resources.create({ namespace: 'other', name: 'nightly' }, { requests: {} }, undefined, call)
    await resources.patchSpec(key, { holderIdentity: 'pod-1', requests: {} }, call)
    expect(await next()).toMatchObject({ type: 'put', resource: { spec: { holderIdentity: 'pod-1' } } })
    resources.restore(backup)
    expect(await next()).toBeUndefined()
    expect((await resources.get(key, call))?.generation).toBe(1)
  })
})
