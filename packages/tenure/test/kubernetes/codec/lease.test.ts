import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { decodeLease, encodeLease, noLease, type DecodedLease } from '../../../src/kubernetes/codec/lease.ts'
import type { RecordDraft } from '../../../src/store-kit/rules.ts'
import { key, noon, draft, read } from './lease-fixtures.ts'

const hour = 3_600_000

interface Written {
  readonly metadata: Readonly<Record<string, unknown>> & { readonly annotations: Readonly<Record<string, string>> }
  readonly spec: Readonly<Record<string, unknown>>
}

/** Encodes a Lease and passes it through JSON. */
function write(change: Partial<RecordDraft> = {}, before = noLease, to = key): Written {
  return JSON.parse(JSON.stringify(encodeLease(to, { ...draft, ...change }, before))) as Written
}

/** A decoded Lease with this spec, as the API server returns it. */
function lease(spec: unknown, metadata: object = {}): DecodedLease {
  return decodeLease({ kind: 'Lease', metadata: { name: 'jobs', resourceVersion: '41', ...metadata }, spec }, 'jobs')
}

const grant = (value: unknown) => ({
  annotations: { 'tenure.dev/grant': typeof value === 'string' ? value : JSON.stringify(value) },
})

/** Returns rows with one column for `test.each`. A value that is an array stays one value. */
const each = (...values: readonly unknown[]) => values.map((value) => [value])

/** The Lease as the API server would return it after the write. */
const stored = ({ metadata, spec }: Written, resourceVersion = '42') => lease(spec, { ...metadata, resourceVersion })

describe('encodeLease', () => {
  test('encodeLease uses the fields that client-go knows, and annotations for the rest', () => {
    expect(write()).toEqual({
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: {
        name: 'jobs',
        namespace: 'default',
        annotations: {
          'tenure.dev/grant':
            '{"holder":"pod-a","term":7,"attempt":"x.1","leaseDurationMs":15000,"released":false,"metadata":{"zone":"az-a"}}',
        },
      },
      spec: {
        holderIdentity: 'pod-a',
        leaseDurationSeconds: 15,
        acquireTime: '2030-01-01T11:58:58.766000Z',
        renewTime: '2030-01-01T12:00:00.000000Z',
        leaseTransitions: 7,
      },
    })
  })

  test.each([
    [1, 1],
    [999.5, 1],
    [1_000, 1],
    [1_000.001, 2],
    [1_001, 2],
    [14_999, 15],
    [2 ** 31 - 1, 2_147_484],
  ])('encodeLease rounds %d ms up to %d s', (leaseDurationMs, seconds) => {
    expect(write({ leaseDurationMs }).spec['leaseDurationSeconds']).toBe(seconds)
  })

  test('encodeLease never shortens a duration, and lengthens it by less than a second', () => {
    fc.assert(
      fc.property(fc.double({ min: 0.001, max: 2 ** 31 - 1, noNaN: true }), (leaseDurationMs) => {
        const seconds = Number(write({ leaseDurationMs }).spec['leaseDurationSeconds'])
        expect(Number.isInteger(seconds)).toBe(true)
        expect(seconds * 1000).toBeGreaterThanOrEqual(leaseDurationMs)
        expect((seconds - 1) * 1000).toBeLessThan(leaseDurationMs)
      }),
    )
  })

  test('encodeLease removes the holder on release and keeps the rest', () => {
    const held = stored(write())
    const { spec } = write({ ...read(held), released: true }, held)
    expect(spec).toEqual({
      leaseDurationSeconds: 15,
      acquireTime: '2030-01-01T11:58:58.766000Z',
      renewTime: '2030-01-01T12:00:00.000000Z',
      leaseTransitions: 7,
    })
    expect(
      read(lease(spec, grant({ holder: 'pod-a', term: 7, attempt: 'x.1', released: true, metadata: {} }))),
    ).toMatchObject({
      holder: 'pod-a',
      attempt: 'x.1',
      term: 7,
      released: true,
    })
  })

  test('encodeLease omits a duration that someone removed, because the API server refuses zero', () => {
    const held = lease(
      { holderIdentity: 'pod-a', leaseTransitions: 7 },
      grant({ holder: 'pod-a', term: 7, attempt: 'x.1' }),
    )
    expect(write({ ...read(held), released: true }, held).spec).not.toHaveProperty('leaseDurationSeconds')
  })

  test('encodeLease records the election if the Lease has another name', () => {
    const { metadata } = write({}, undefined, { ...key, election: 'Jobs of Ü' })
    expect(metadata.annotations).toMatchObject({ 'tenure.dev/election': 'Jobs of Ü' })
  })

  test('encodeLease refuses a term above the maximum of leaseTransitions', () => {
    expect(write({ term: 2_147_483_647 }).spec['leaseTransitions']).toBe(2_147_483_647)
    expect(() => write({ term: 2_147_483_648 })).toThrow(
      expect.objectContaining({
        code: 'TERM_EXHAUSTED',
        message: expect.stringContaining('"default/jobs"') as string,
      }) as Error,
    )
  })

  test('encodeLease targets the version that was read and keeps all foreign fields', () => {
    const metadata = {
      uid: 'c0ffee',
      resourceVersion: '41',
      creationTimestamp: '2029-01-01T00:00:00Z',
      labels: { team: 'payments' },
      annotations: { note: 'hands off', 'tenure.dev/grant': 'old', 'tenure.dev/checkpoint': 'last run at 5' },
      ownerReferences: [{ apiVersion: 'v1', kind: 'Pod', name: 'p', uid: 'u' }],
      finalizers: ['example.test/wait'],
      managedFields: [{ manager: 'kubectl' }],
      something: { from: 'the future' },
    }
    const spec = {
      strategy: 'OldestEmulationVersion',
      preferredHolder: 'pod-b',
      fromTheFuture: [1],
      holderIdentity: 'old',
    }
    const written = write({ checkpoint: 'last run at 6' }, lease(spec, metadata))
    expect(written.metadata).toEqual({
      ...metadata,
      name: 'jobs',
      namespace: 'default',
      annotations: {
        note: 'hands off',
        'tenure.dev/grant':
          '{"holder":"pod-a","term":7,"attempt":"x.1","leaseDurationMs":15000,"released":false,"metadata":{"zone":"az-a"}}',
        'tenure.dev/checkpoint': 'last run at 6',
      },
    })
    expect(written.spec).toMatchObject({
      strategy: 'OldestEmulationVersion',
      preferredHolder: 'pod-b',
      fromTheFuture: [1],
      holderIdentity: 'pod-a',
    })
  })
})

describe('renewTime of encodeLease', () => {
  const renewTime = (nowMs: number, before: unknown) =>
    write({ renewedAt: nowMs }, lease({ renewTime: before })).spec['renewTime']

  test.each([
    [
      'is the current time if the last renewal is long ago',
      noon,
      '2030-01-01T11:59:55.000000Z',
      '2030-01-01T12:00:00.000000Z',
    ],
    ['advances by a second within the same second', noon, '2030-01-01T11:59:59.999000Z', '2030-01-01T12:00:00.999000Z'],
    ['advances by a second at the same instant', noon, '2030-01-01T12:00:00.000000Z', '2030-01-01T12:00:01.000000Z'],
    [
      'keeps advancing after the clock was set back',
      noon,
      '2030-01-01T12:30:00.000000Z',
      '2030-01-01T12:30:01.000000Z',
    ],
    ['accepts whole seconds of another program', noon, '2030-01-01T12:00:00Z', '2030-01-01T12:00:01.000000Z'],
    ['accepts microseconds', noon, '2030-01-01T12:00:00.999999Z', '2030-01-01T12:00:01.999000Z'],
    ['returns to the current time from far ahead', noon, '2030-01-02T12:00:00.000000Z', '2030-01-01T12:00:00.000000Z'],
    [
      'returns to the current time from the maximum time',
      noon,
      '9999-12-31T23:59:59.999999Z',
      '2030-01-01T12:00:00.000000Z',
    ],
    ['ignores a missing value', noon, undefined, '2030-01-01T12:00:00.000000Z'],
    ['ignores null', noon, null, '2030-01-01T12:00:00.000000Z'],
    ['ignores an invalid value', noon, 'soon', '2030-01-01T12:00:00.000000Z'],
    ['ignores the zero time', noon, '0001-01-01T00:00:00Z', '2030-01-01T12:00:00.000000Z'],
  ])('renewTime %s', (_what, nowMs, before, expected) => {
    expect(renewTime(nowMs, before)).toBe(expected)
  })

  test('renewTime differs in whole seconds after every write, whatever the clock does', () => {
    const clock = fc.oneof(
      fc.integer({ min: 0, max: 3_000 }),
      fc.integer({ min: -3_000, max: 3_000 }),
      fc.integer({ min: -48 * hour, max: 48 * hour }),
    )
    fc.assert(
      fc.property(fc.array(clock, { minLength: 1, maxLength: 50 }), (steps) => {
        let nowMs = noon
        let current = stored(write({ renewedAt: nowMs }))
        for (const step of steps) {
          nowMs += step
          const next = stored(write({ renewedAt: nowMs }, current))
          const [before, after] = [current, next].map(({ lease: { spec } }) => String(spec['renewTime']))
          expect(after).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/)
          expect(after?.slice(0, 19)).not.toBe(before?.slice(0, 19))
          current = next
        }
      }),
    )
  })

  test('renewTime never gets more than an hour ahead of the clock', () => {
    let current = stored(write())
    for (let count = 0; count < 5_000; count++) current = stored(write({}, current))
    expect(Math.abs(Date.parse(String(current.lease.spec['renewTime'])) - noon)).toBeLessThanOrEqual(hour)
  })
})

describe('decodeLease', () => {
  test('decodeLease returns the record that encodeLease wrote, with its duration in whole seconds', () => {
    const text = fc.string({ unit: 'grapheme', minLength: 1 })
    const drafts = fc.record({
      holder: fc.oneof(
        text,
        fc.constantFrom(' ', '__proto__', 'constructor', '"', '\\', '{}', 'null', 'a\u2028b', '🚀'),
      ),
      attempt: text,
      term: fc.integer({ min: 0, max: 2 ** 31 - 1 }),
      leaseDurationMs: fc.integer({ min: 1, max: 2 ** 31 - 1 }),
      checkpoint: fc.oneof(fc.constant(''), text),
      metadata: fc.dictionary(text, fc.jsonValue({ maxDepth: 3 }) as fc.Arbitrary<string>),
      released: fc.boolean(),
    })
    fc.assert(
      fc.property(drafts, (change) => {
        const wanted = { ...draft, ...change, leaseDurationMs: Math.ceil(change.leaseDurationMs / 1000) * 1000 }
        const { record, highestTerm } = stored(write(change))
        expect(record).toEqual({ ...JSON.parse(JSON.stringify(wanted)), version: '42' })
        expect(highestTerm).toBe(change.term)
      }),
    )
  })

  test('decodeLease reads a Lease created by client-go as held in term 0, without an attempt', () => {
    const spec = {
      holderIdentity: 'client-go_1',
      leaseDurationSeconds: 15,
      acquireTime: '2030-01-01T12:00:00.123456Z',
      renewTime: '2030-01-01T12:00:04.000000Z',
      leaseTransitions: 0,
    }
    expect(lease(spec)).toMatchObject({
      record: {
        election: 'jobs',
        holder: 'client-go_1',
        attempt: '',
        term: 0,
        leaseDurationMs: 15_000,
        acquiredAt: noon + 123,
        renewedAt: noon + 4_000,
        released: false,
        metadata: {},
        checkpoint: '',
        version: '41',
      },
      highestTerm: 0,
      remainingMs: undefined,
    })
  })

  test.each([{}, undefined, { holderIdentity: '' }, { holderIdentity: null }, { leaseDurationSeconds: 15 }])(
    'decodeLease reads a Lease without a holder as free: %j',
    (spec) => {
      expect(read(lease(spec))).toMatchObject({ holder: '', attempt: '', term: 0, released: true })
    },
  )

  test.each([undefined, null, 0, -1, '15', true])(
    'decodeLease reads a Lease with a duration of %j as held, with an unknown duration',
    (seconds) => {
      const record = read(lease({ holderIdentity: 'x', leaseDurationSeconds: seconds }))
      expect(record).toMatchObject({ holder: 'x', leaseDurationMs: 0, released: false, acquiredAt: 0, renewedAt: 0 })
    },
  )

  test.each(each(5, true, false, 0, {}, [], ['x']))(
    'decodeLease rejects the invalid holder %j instead of reading the Lease as free',
    (holderIdentity) => {
      expect(() => read(lease({ holderIdentity }))).toThrow(
        expect.objectContaining({ code: 'RECORD_INVALID' }) as Error,
      )
    },
  )

  test.each(each(-1, 0.5, 2 ** 31, 1e300, '7', true, {}, []))(
    'decodeLease rejects the invalid leaseTransitions %j',
    (leaseTransitions) => {
      for (const holderIdentity of ['x', '']) {
        expect(() => read(lease({ holderIdentity, leaseTransitions }))).toThrow(
          expect.objectContaining({ code: 'RECORD_INVALID' }) as Error,
        )
      }
    },
  )

  const others = [
    undefined,
    null,
    [],
    'Lease',
    {},
    { kind: 'Lease' },
    { kind: 'Lease', metadata: {} },
    { kind: 'Lease', metadata: { resourceVersion: '' } },
    { kind: 'Lease', metadata: { resourceVersion: 41 } },
    { kind: 'Lease', metadata: [], spec: {} },
    { kind: 'LeaseList', metadata: { resourceVersion: '41' }, items: [] },
    { kind: 'Status', metadata: { resourceVersion: '41' } },
    { kind: 'Lease', metadata: { resourceVersion: '41' }, spec: 'free' },
    { kind: 'Lease', metadata: { resourceVersion: '41' }, spec: [] },
    { kind: 'Lease', metadata: { resourceVersion: '41' }, spec: null },
  ]
  test.each(each(...others))('decodeLease rejects what is not a Lease: %j', (value) => {
    expect(() => decodeLease(value)).toThrow(expect.objectContaining({ code: 'RECORD_INVALID' }) as Error)
  })
})

describe('the attempt in a Lease', () => {
  const told = { holder: 'pod-a', term: 7, attempt: 'x.1', metadata: { zone: 'az-a' } }

  test('the attempt in the annotation is used when its holder and term match the spec', () => {
    const record = read(lease({ holderIdentity: 'pod-a', leaseTransitions: 7 }, grant(told)))
    expect(record).toMatchObject({ attempt: 'x.1', metadata: { zone: 'az-a' }, released: false })
  })

  test.each([
    ['another holder', { holderIdentity: 'client-go', leaseTransitions: 7 }],
    ['a later term', { holderIdentity: 'pod-a', leaseTransitions: 8 }],
    ['an earlier term', { holderIdentity: 'pod-a', leaseTransitions: 6 }],
    ['no term', { holderIdentity: 'pod-a' }],
    ['a holder that differs only in a space', { holderIdentity: 'pod-a ', leaseTransitions: 7 }],
    ['no holder and a later term', { leaseTransitions: 8 }],
  ])('the attempt in the annotation is ignored when the spec has %s', (_what, spec) => {
    const record = read(lease(spec, grant(told)))
    const holder = 'holderIdentity' in spec ? spec.holderIdentity : ''
    expect(record).toMatchObject({ holder, attempt: '', metadata: {} })
  })

  test.each([7, 6, undefined])(
    'a grant that was not released stays valid when the holder was removed and leaseTransitions is %j',
    (transitions) => {
      const wiped = lease(
        { leaseTransitions: transitions, leaseDurationSeconds: 1 },
        grant({ ...told, leaseDurationMs: 9000 }),
      )
      const { holder, term, attempt } = told
      expect(read(wiped)).toMatchObject({ holder, term, attempt, leaseDurationMs: 9000, released: false })
      const mended = stored(write({}, wiped))
      expect(read(mended)).toMatchObject({ holder, term, attempt, leaseDurationMs: 15_000, released: false })
    },
  )

  test.each([6, 0, undefined])(
    'the highest term is kept when another program sets leaseTransitions to %j',
    (leaseTransitions) => {
      for (const holderIdentity of ['client-go', undefined]) {
        const current = lease({ holderIdentity, leaseTransitions }, grant(told))
        const term = holderIdentity === undefined ? 7 : (leaseTransitions ?? 0)
        expect(current).toMatchObject({ record: { term }, highestTerm: 7 })
      }
    },
  )

  test.each([
    '',
    'no JSON',
    '[]',
    'null',
    '"text"',
    '7',
    '{',
    '{"holder":"pod-a","term":7}',
    '{"holder":"pod-a","attempt":"x.1"}',
    '{"holder":7,"term":7,"attempt":"x.1"}',
    '{"holder":"pod-a","term":"7","attempt":"x.1"}',
    '{"holder":"pod-a","term":1e300,"attempt":"x.1"}',
    '{"holder":"pod-a","term":2147483648,"attempt":"x.1"}',
    '{"holder":"pod-a","term":-1,"attempt":"x.1"}',
    '{"holder":"pod-a","term":7.5,"attempt":"x.1"}',
    '{"holder":"pod-a","term":7,"attempt":["x.1"]}',
    '{"__proto__":{"holder":"pod-a","term":7,"attempt":"x.1"}}',
    '['.repeat(50_000),
  ])('an invalid grant annotation is ignored: %.60s', (text) => {
    const current = lease({ holderIdentity: 'pod-a', leaseTransitions: 7 }, grant(text))
    expect(current).toMatchObject({ record: { holder: 'pod-a', attempt: '', term: 7, metadata: {} }, highestTerm: 7 })
  })

  test.each(['null', '[]', '"x"', '5'])('a grant annotation with the metadata %s has no metadata', (metadata) => {
    const text = `{"holder":"pod-a","term":7,"attempt":"x.1","metadata":${metadata}}`
    expect(read(lease({ holderIdentity: 'pod-a', leaseTransitions: 7 }, grant(text)))).toMatchObject({
      attempt: 'x.1',
      metadata: {},
    })
  })

  test('a grant annotation cannot set a prototype', () => {
    const text = '{"holder":"pod-a","term":7,"attempt":"x.1","metadata":{"__proto__":{"admin":true}}}'
    const { metadata } = read(lease({ holderIdentity: 'pod-a', leaseTransitions: 7 }, grant(text)))
    expect(metadata['admin']).toBeUndefined()
    expect({}).not.toHaveProperty('admin')
  })

  test.each(each(null, [], 'x', 5))('annotations that are %j are ignored', (annotations) => {
    const current = lease({ holderIdentity: 'pod-a', leaseTransitions: 7 }, { annotations })
    expect(read(current)).toMatchObject({ holder: 'pod-a', attempt: '', checkpoint: '' })
    expect(write({}, current).metadata.annotations).toHaveProperty(['tenure.dev/grant'])
  })
})

test("a checkpoint survives another program's term, and a later leader reads it", () => {
  const carried = stored(write({ checkpoint: 'last run at 5' }))
  // client-go sends the object back unchanged, except for its spec.
  const foreign = lease({ holderIdentity: 'client-go', leaseTransitions: 8 }, carried.lease.metadata)
  expect(read(foreign)).toMatchObject({ holder: 'client-go', attempt: '', checkpoint: 'last run at 5' })
  const mine = stored(write({ term: 9, checkpoint: read(foreign).checkpoint }, foreign))
  expect(read(mine)).toMatchObject({ holder: 'pod-a', attempt: 'x.1', term: 9, checkpoint: 'last run at 5' })
  expect(read(stored(write({ term: 9, checkpoint: '' }, mine))).checkpoint).toBe('')
})
