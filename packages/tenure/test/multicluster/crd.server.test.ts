import { beforeAll, expect, test } from 'vitest'
import { installCrd } from '../../../../test/servers/multicluster-crd.ts'
import { describeWithCluster } from '../../../../test/servers/suite.ts'
import { readResource } from '../../src/multicluster/protocol/resource-codec.ts'
import { partOf, partsOf, version, withPart, type Path, type Schema } from './crd-schema.ts'
import { whole } from './full-resource.ts'

/** Samples that each pattern must refuse. */
const refused: Readonly<Record<string, readonly string[]>> = {
  '^[^/\\x00-\\x1f\\x7f-\\x9f]*$': ['west/pod', 'a\nb', 'a\u0085b'],
  '^[^/\\x00-\\x1f\\x7f-\\x9f]+$': ['west/pod', 'a\nb', 'a\u0085b'],
  '^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$': ['West', 'a.b', '-a', 'a-'],
  '^[!-~]+$': ['a b', 'ä', 'a\n'],
  '^[A-Za-z][A-Za-z0-9./-]*$': ['1', ' '],
  '^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$': ['1', 'two words'],
  '^[A-Z][A-Z_]*$': ['invalid', 'A B'],
}

/** Values at each end of the allowed range of a part, and values just beyond it. */
function boundsOf({ type, format, ...schema }: Schema, sample: unknown): { within: unknown[]; beyond: unknown[] } {
  const { enum: choices, pattern, minimum, maximum, minLength, maxLength, maxItems, maxProperties } = schema
  const within: unknown[] = []
  const beyond: unknown[] = [type === 'string' ? 1 : 'text']
  const text = (length: number) =>
    format === 'date-time' ? `2026-01-02T03:04:05.${'0'.repeat(length - 21)}Z` : 'A'.repeat(length)
  // A value that the pattern refuses would not prove the bound.
  const fitting = (length: number) => (pattern?.includes('[a-z0-9]') ? text(length).toLowerCase() : text(length))
  if (format === 'date-time') beyond.push('yesterday', '')
  if (choices) {
    within.push(...choices)
    beyond.push('other')
  }
  if (pattern !== undefined) beyond.push(...(refused[pattern] ?? [`no sample for ${pattern}`]))
  if (minimum !== undefined) {
    within.push(minimum)
    beyond.push(minimum - 1)
  }
  if (maximum !== undefined) {
    within.push(maximum)
    beyond.push(maximum + 1)
  }
  if (type === 'integer') beyond.push(1.5)
  if (minLength !== undefined) {
    within.push(fitting(minLength))
    beyond.push(fitting(minLength - 1))
  }
  if (maxLength !== undefined) {
    within.push(fitting(maxLength))
    beyond.push(fitting(maxLength + 1))
  }
  if (maxItems !== undefined) {
    const items = (count: number) =>
      Array.from({ length: count }, (_, index) => itemOf((sample as unknown[])[0], index))
    within.push(items(maxItems))
    beyond.push(items(maxItems + 1))
  }
  if (maxProperties !== undefined) {
    const entry = Object.values(sample as object)[0] as unknown
    const map = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, entry]))
    within.push(map(maxProperties), { ['k'.repeat(64)]: entry })
    beyond.push(map(maxProperties + 1), { ['k'.repeat(65)]: entry }, { '': entry })
  }
  return { within, beyond }
}

/** Makes the items of a list distinct. */
const itemOf = (item: unknown, index: number) =>
  typeof item === 'string' ? `${item}${index}` : { ...(item as object), type: `Type${index}` }

describeWithCluster('the CustomResourceDefinition of MultiClusterLeases', (cluster) => {
  const collection = () => `/apis/tenure.dev/v1alpha1/namespaces/${cluster().namespace}/multiclusterleases`
  const strict = '?fieldValidation=Strict'

  const kind = { apiVersion: 'tenure.dev/v1alpha1', kind: 'MultiClusterLease' }
  let metadata: unknown

  beforeAll(async () => {
    await installCrd(cluster())
    const body = { ...kind, metadata: { name: 'bounds' }, spec: whole.spec }
    const created = await cluster().admin.request('POST', `${collection()}${strict}`, body)
    expect(created.status, JSON.stringify(created.body)).toBe(201)
    const { status } = whole
    const path = `${collection()}/bounds/status${strict}`
    const patched = await cluster().admin.request<{ metadata: unknown }>('PATCH', path, { status })
    expect(patched.status, JSON.stringify(patched.body)).toBe(200)
    metadata = patched.body.metadata
  })

  test('the API server keeps every field as it was written', async () => {
    const { body } = await cluster().admin.request<Record<string, unknown>>('GET', `${collection()}/bounds`)
    expect({ spec: body['spec'], status: body['status'] }).toEqual(whole)
    const { spec, status } = readResource(body) ?? {}
    expect({ spec, status }).toEqual(whole)
  })

  /** Tries to write the whole resource with one part replaced. Nothing is stored. */
  const tryPart = (path: Path, part: unknown) => {
    const place = path[0] === 'status' ? 'bounds/status' : 'bounds'
    const body = { ...kind, metadata, ...(withPart(whole, path, part) as object) }
    return cluster().admin.request<{ message: string }>('PUT', `${collection()}/${place}${strict}&dryRun=All`, body)
  }

  test('the API server refuses values just beyond a bound, and accepts those at the bound', async () => {
    const parts = [...partsOf(version.schema.openAPIV3Schema, 'key')].filter(([path]) => path.length > 1)
    for (const [path, schema] of parts) {
      const { within, beyond } = boundsOf(schema, partOf(whole, path))
      const at = path.join('.').replaceAll(/\.0\b/g, '[0]')
      const said = (value: unknown) => `${at} = ${JSON.stringify(value).slice(0, 100)}`
      const check = async (value: unknown, expected: object) =>
        expect(await tryPart(path, value), said(value)).toMatchObject(expected)
      await Promise.all([
        ...within.map((value) => check(value, { status: 200 })),
        ...beyond.map((value) => check(value, { status: 422, body: { message: expect.stringContaining(`${at}: `) } })),
      ])
    }
  })

  test('the API server refuses unknown fields and missing required ones', async () => {
    const parts = [...partsOf(version.schema.openAPIV3Schema, 'key')]
    const objects = parts.filter(([path, { properties }]) => path.length > 0 && path[0] !== 'metadata' && properties)
    for (const [path, { required = [] }] of objects) {
      const object = partOf(whole, path) as object
      const { body } = await tryPart(path, { ...object, unknown: 1 })
      expect(body.message, path.join('.')).toMatch(/unknown field ".*unknown"/)
      for (const name of required) {
        expect((await tryPart([...path, name], undefined)).status, [...path, name].join('.')).toBe(422)
      }
    }
  })
})
