import { expect, test } from 'vitest'
import { leavesOf, partsOf, version } from './crd-schema.ts'
import { whole } from './full-resource.ts'

const parts = [...partsOf(version.schema.openAPIV3Schema, 'key')]
const fields = parts.filter(([[first]]) => first === 'spec' || first === 'status')

test('the definition has exactly the fields of the resource type', () => {
  const leaves = fields.filter(
    ([, { properties, additionalProperties, items }]) => !properties && !additionalProperties && !items,
  )
  expect(leaves.map(([path]) => path.join('.')).toSorted()).toEqual(
    [...leavesOf(whole)].map((path) => path.join('.')).toSorted(),
  )
})

test('every field of the definition has a description', () => {
  // The API server does not allow a description for metadata.
  const described = parts.filter(([path]) => path.join('.') !== 'metadata')
  for (const [path, { description }] of described) expect(description, path.join('.')).toMatch(/^[A-Z].*\.$/)
})

test('every field of the definition has a limit', () => {
  for (const [path, schema] of fields) {
    const at = path.join('.')
    if (schema.type === 'string') expect(schema.enum ?? schema.maxLength, at).toBeDefined()
    if (schema.type === 'array') expect(schema.maxItems, at).toBeDefined()
    if (schema.additionalProperties) expect(schema.maxProperties, at).toBeDefined()
    if (schema.type !== 'integer' && schema.type !== 'number') continue
    expect(schema.format, at).toBeDefined()
    expect(schema.minimum, at).toBeDefined()
    // The API server sets the generation itself, so it needs no maximum.
    if (path.at(-1) !== 'observedGeneration') expect(schema.maximum, at).toBeDefined()
  }
})

test('status is a subresource, and kubectl shows the leader', () => {
  expect(version.subresources).toEqual({ status: {} })
  expect(version.additionalPrinterColumns.map(({ name, jsonPath }) => [name, jsonPath])).toEqual([
    ['Leader', '.status.leader'],
    ['Cluster', '.status.cluster'],
    ['Term', '.status.term'],
    ['Renewed', '.status.renewTime'],
    ['Age', '.metadata.creationTimestamp'],
  ])
})
