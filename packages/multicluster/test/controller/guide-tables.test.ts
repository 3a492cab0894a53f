/** Tests that docs/guide/multicluster.md lists exactly the conditions, metrics, and Events of a controller. */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { readDocument } from '../../../../test/documents.ts'
import { errorCodes, TenureError, type ErrorCode } from '../../../tenure/src/common/errors.ts'
import type { LeaseStore } from '../../../tenure/src/engine/lease-store.ts'
import { memoryResources } from '../../../tenure/src/multicluster/memory-resources.ts'
import { relayedStore } from '../../../tenure/src/multicluster/relayed-store.ts'
import { fakeClock } from '../../../testing/src/index.ts'
import { controllerMetrics } from '../../src/controller/metrics.ts'
import { Relay } from '../../src/relay/relay.ts'

const page = readDocument('docs/guide/multicluster.md')
const folder = join(import.meta.dirname, '../../src')
const source = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  .filter((file) => file.endsWith('.ts'))
  .map((file) => readFileSync(join(folder, file), 'utf8'))
  .join('\n')

const conditions = [...page.matchAll(/^\| `(\w+)` \| `(True|False)` \| ([^|]+) \|/gm)].flatMap(
  ([, type, status, reasons = '']) =>
    [...reasons.matchAll(/`(\w+)`/g)].map(([, reason = '']) => ({ type, status, reason })),
)
const codeOf = (reason: string) => reason.replaceAll(/(?<=.)([A-Z])/g, '_$1').toUpperCase() as ErrorCode
const isFailure = ({ type, status }: (typeof conditions)[number]) => type === 'BackendHealthy' && status === 'False'

test('docs/guide/multicluster.md has a row for each reason that a controller sets on its own', () => {
  const given = new Set([...source.matchAll(/\breason: '(\w+)'/g)].map(([, reason]) => reason))
  const rows = conditions.filter((row) => !isFailure(row)).map(({ reason }) => reason)
  expect(rows.toSorted()).toEqual([...given].toSorted())
})

const failures = conditions.filter(isFailure).map(({ reason }) => ({ reason, code: codeOf(reason) }))

test('docs/guide/multicluster.md names the reasons of a failing global store', () => {
  expect(failures.length).toBeGreaterThan(5)
})

test.each(failures)(
  'the condition has the reason $reason when the global store fails with $code',
  async ({ reason, code }) => {
    expect(errorCodes).toContain(code)
    const clock = fakeClock()
    const fail = () => Promise.reject(new TenureError(code, 'The global store failed.', { retryable: true }))
    const store: LeaseStore = { expiry: 'observed', terms: true, read: fail, acquire: fail, renew: fail, release: fail }
    const resources = memoryResources(() => clock.randomId())
    const relay = new Relay({ resources, store, cluster: 'east', clock, isFirst: () => true })
    relay.start()
    const { signal } = new AbortController()
    const asking = relayedStore(resources, 'jobs', clock)
      .read('report', { signal })
      .catch(() => undefined)
    await clock.advance(3_000)
    const resource = await resources.get({ namespace: 'jobs', name: 'report' }, { signal, timeoutMs: 1_000 })
    const found = resource?.status.conditions?.find(({ type }) => type === 'BackendHealthy')
    expect(found).toMatchObject({ status: 'False', reason, message: 'The global store failed.' })
    await clock.advance(60_000)
    await asking
    await relay.stop()
  },
)

test('docs/guide/multicluster.md has a row for each metric', () => {
  const none = { running: 0, waiting: 0 }
  const text = controllerMetrics('east', () => ({ resources: 0, calls: none, writes: none, isFirst: true })).text()
  const metrics = [...text.matchAll(/^# TYPE (\S+)/gm)].map(([, name]) => name)
  const rows = page.split('\n').filter((line) => line.startsWith('| `tenure_controller_'))
  const named = rows.flatMap((row) => [...(row.split('|')[1] ?? '').matchAll(/`(\w+)`/g)].map(([, name]) => name))
  expect(named.toSorted()).toEqual(metrics.toSorted())
})

test('docs/guide/multicluster.md has a row for each Event', () => {
  const events = readFileSync(join(folder, 'controller/events.ts'), 'utf8')
  const given = [...events.matchAll(/\['(\w+)', `/g)].map(([, reason]) => reason)
  const [, table = ''] = page.split('Events on the resource:')
  const rows = [...table.matchAll(/^\| `(\w+)` \|/gm)].map(([, reason]) => reason)
  expect(given.length).toBeGreaterThan(3)
  expect(rows.toSorted()).toEqual(given.toSorted())
})
