import { isObject } from '@tenure/internal/objects'
import { readCrd } from '../../../../test/servers/multicluster-crd.ts'

/** The parts of OpenAPI schemas that the definition uses. */
export interface Schema {
  readonly type: string
  readonly description?: string
  readonly format?: string
  readonly pattern?: string
  readonly enum?: readonly string[]
  readonly required?: readonly string[]
  readonly minLength?: number
  readonly maxLength?: number
  readonly minimum?: number
  readonly maximum?: number
  readonly maxItems?: number
  readonly maxProperties?: number
  readonly properties?: Readonly<Record<string, Schema>>
  readonly additionalProperties?: Schema
  readonly items?: Schema
}

interface Definition {
  readonly spec: {
    readonly versions: readonly [
      {
        readonly schema: { readonly openAPIV3Schema: Schema }
        readonly subresources: object
        readonly additionalPrinterColumns: readonly { readonly name: string; readonly jsonPath: string }[]
      },
    ]
  }
}

/** The only version of the definition. */
export const version = (readCrd() as Definition).spec.versions[0]

/** A path in a resource: names of fields, keys of maps, and indexes of lists. */
export type Path = readonly string[]

/** Yields every part of the schema, with its path in a resource that has one key in each map. */
export function* partsOf(schema: Schema, key: string, path: Path = []): Generator<[Path, Schema]> {
  yield [path, schema]
  for (const [name, property] of Object.entries(schema.properties ?? {})) yield* partsOf(property, key, [...path, name])
  if (schema.additionalProperties) yield* partsOf(schema.additionalProperties, key, [...path, key])
  if (schema.items) yield* partsOf(schema.items, key, [...path, '0'])
}

/** Yields the paths of all leaves of a value. */
export function* leavesOf(value: unknown, path: Path = []): Generator<Path> {
  if (typeof value !== 'object' || value === null) return yield path
  for (const [name, part] of Object.entries(value)) yield* leavesOf(part, [...path, name])
}

/** Returns a copy of the value with the part at this path replaced. */
export function withPart(value: unknown, [name, ...rest]: Path, part: unknown): unknown {
  if (name === undefined) return part
  if (Array.isArray(value)) {
    return value.map((item: unknown, index) => (String(index) === name ? withPart(item, rest, part) : item))
  }
  const fields = isObject(value) ? value : {}
  return { ...fields, [name]: withPart(fields[name], rest, part) }
}

/** Returns the part at this path. */
export function partOf(value: unknown, path: Path): unknown {
  return path.reduce<unknown>((whole, name) => (whole as Record<string, unknown>)[name], value)
}
