import { describe, expect, onTestFinished, test } from 'vitest'
import type { MultiClusterAnswer, MultiClusterRequest } from '../../src/multicluster/protocol/resource-types.ts'
import type { ResourceChange, ResourceKey, Resources, ResourceScope } from '../../src/multicluster/resources.ts'

/** The implementation under test, and how an operator deletes a resource in it. */
export interface ResourcesUnderTest {
  readonly resources: Resources
  readonly namespace: string
  delete(key: ResourceKey): unknown
}

const call = { signal: new AbortController().signal }
let names = 0

export function requestOf(id: string): MultiClusterRequest {
  return { id, verb: 'read', renewTime: '2026-01-01T00:00:00.000Z', timeoutMs: 5_000, claim: { holder: 'a' } }
}

const answerOf = (id: string): MultiClusterAnswer => ({ id, ok: true })

/** Returns a function that waits for the next change of a watch. The watch ends with the test. */
export function watchOf(resources: Resources, scope: ResourceScope): () => Promise<ResourceChange> {
  const ending = new AbortController()
  onTestFinished(() => ending.abort())
  const changes = resources.watch(scope, { signal: ending.signal })[Symbol.asyncIterator]()
  return async () => (await changes.next()).value as ResourceChange
}

/** The behavior that every implementation of Resources must share: the real API server and its model in simulations. */
export function resourcesSuite(open: () => ResourcesUnderTest): void {
  const scene = () => {
    const { resources, namespace, delete: remove } = open()
    return { resources, remove, key: { namespace, name: `election-${++names}` } }
  }

  test('a resource is created once and read back unchanged', async () => {
    const { resources, key } = scene()
    expect(await resources.get(key, call)).toBeUndefined()
    const created = await resources.create(key, { requests: { one: requestOf('1') } }, 'Überschrift', call)
    expect(created).toMatchObject({
      ...key,
      generation: 1,
      election: 'Überschrift',
      spec: { requests: { one: requestOf('1') } },
      status: { answers: {} },
    })
    expect(await resources.create(key, { requests: {} }, undefined, call)).toBeUndefined()
    expect(await resources.get(key, call)).toEqual(created)
  })

  test('a patch of spec changes only the named fields and raises the generation', async () => {
    const { resources, key } = scene()
    expect(await resources.patchSpec(key, { requests: { one: requestOf('1') } }, call)).toBeUndefined()
    const requests = { one: requestOf('1'), two: requestOf('2') }
    await resources.create(key, { requests, holderIdentity: 'a' }, undefined, call)
    const patch = { holderIdentity: null, requests: { one: requestOf('3'), two: null } }
    const patched = await resources.patchSpec(key, patch, call)
    expect(patched).toMatchObject({ generation: 2 })
    expect(patched?.spec).toEqual({ requests: { one: requestOf('3') } })
  })

  test('a patch that changes nothing keeps the generation and the version', async () => {
    const { resources, key } = scene()
    await resources.create(key, { requests: { one: requestOf('1') } }, undefined, call)
    // The first patch of an object may change what the API server keeps about it.
    const before = await resources.patchSpec(key, { requests: { one: requestOf('2') } }, call)
    expect(await resources.patchSpec(key, { requests: { one: requestOf('2') } }, call)).toEqual(before)
  })

  test('a patch of status applies only to the version that it was computed from', async () => {
    const { resources, key } = scene()
    const seen = await resources.create(key, { requests: {} }, undefined, call)
    if (!seen) throw new Error('not created')
    const first = await resources.patchStatus(seen, { answers: { one: answerOf('1') } }, seen.resourceVersion, call)
    expect(first).toMatchObject({ generation: 1, status: { answers: { one: answerOf('1') } } })
    expect(await resources.patchStatus(seen, { answers: { one: null } }, seen.resourceVersion, call)).toBeUndefined()
    const free = await resources.patchStatus(seen, { leader: 'b', answers: { two: answerOf('2') } }, undefined, call)
    expect(free?.status).toEqual({ leader: 'b', answers: { one: answerOf('1'), two: answerOf('2') } })
  })

  test('a patch of status does not change a resource that was recreated since', async () => {
    const { resources, key, remove } = scene()
    const seen = await resources.create(key, { requests: {} }, undefined, call)
    if (!seen) throw new Error('not created')
    await remove(key)
    expect(await resources.patchStatus(seen, { leader: 'a' }, seen.resourceVersion, call)).toBeUndefined()
    const next = await resources.create(key, { requests: {} }, undefined, call)
    expect(next?.uid).not.toBe(seen.uid)
    expect(await resources.patchStatus(seen, { leader: 'a' }, seen.resourceVersion, call)).toBeUndefined()
    expect(await resources.get(key, call)).toEqual(next)
    // Without a version the patch is applied, but the writer gets undefined because the uid differs.
    expect(await resources.patchStatus(seen, { answers: { one: answerOf('1') } }, undefined, call)).toBeUndefined()
    expect((await resources.get(key, call))?.status).toEqual({ answers: { one: answerOf('1') } })
  })

  describe('watches of resources', () => {
    test('a watch of one resource yields its state, then each change, and its deletion', async () => {
      const { resources, key, remove } = scene()
      const next = watchOf(resources, key)
      expect(await next()).toEqual({ type: 'all', resources: [] })
      const change = next()
      await resources.create({ ...key, name: `${key.name}-other` }, { requests: {} }, undefined, call)
      const created = await resources.create(key, { requests: {} }, undefined, call)
      expect(await change).toEqual({ type: 'put', resource: created })
      const patched = await resources.patchSpec(key, { requests: { one: requestOf('1') } }, call)
      expect(await next()).toEqual({ type: 'put', resource: patched })
      const again = watchOf(resources, key)
      expect(await again()).toEqual({ type: 'all', resources: [patched] })
      await remove(key)
      expect(await next()).toMatchObject({ type: 'deleted', resource: key })
      expect(await again()).toMatchObject({ type: 'deleted', resource: key })
    })
  })
}
