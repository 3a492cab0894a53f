import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { startService, type ServiceOptions } from '../../src/index.ts'

async function start(more: Partial<ServiceOptions> = {}) {
  const data = mkdtempSync(join(tmpdir(), 'tenure-metrics-'))
  const service = await startService({ data, port: 0, policy: { minTtlMs: 20, maxTtlMs: 60_000 }, ...more })
  onTestFinished(async () => {
    await service.close()
    rmSync(data, { recursive: true })
  })
  const ask = async (path: string, body?: object) => {
    const response = await fetch(service.url + path, {
      ...(body && { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }),
    })
    return (await response.json()) as Record<string, unknown>
  }
  const scrape = async () => {
    const response = await fetch(`${service.url}/metrics`)
    expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8')
    return parse(await response.text())
  }
  return { ask, scrape }
}

interface Sample {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

interface Family {
  readonly type: string
  readonly samples: Sample[]
}

/** Parses the Prometheus text format strictly. Throws on anything unexpected. */
function parse(text: string): Map<string, Family> {
  const families = new Map<string, Family>()
  const helped = new Set<string>()
  const seen = new Set<string>()
  expect(text.endsWith('\n')).toBe(true)
  for (const line of text.slice(0, -1).split('\n')) {
    if (line === '') continue
    const [, kind, about = '', rest = ''] = /^# (HELP|TYPE) ([a-zA-Z_:][\w:]*) (.+)$/.exec(line) ?? []
    if (kind === 'HELP') {
      expect(helped.has(about), line).toBe(false)
      helped.add(about)
      continue
    }
    if (kind === 'TYPE') {
      expect(families.has(about), line).toBe(false)
      expect(['counter', 'gauge', 'histogram', 'summary', 'untyped'], line).toContain(rest)
      families.set(about, { type: rest, samples: [] })
      continue
    }
    const [, name = '', inner, number = ''] = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$/.exec(line) ?? []
    expect(number, line).toMatch(/^(?:[+-]?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|Inf)|NaN)$/i)
    expect(seen.has(`${name}{${inner ?? ''}}`), line).toBe(false)
    seen.add(`${name}{${inner ?? ''}}`)
    const family = families.get(name) ?? families.get(name.replace(/_(bucket|sum|count)$/, ''))
    if (!family) throw new Error(`No type was declared for: ${line}`)
    family.samples.push({ name, labels: labelsOf(inner ?? '', line), value: Number(number.replace('Inf', 'Infinity')) })
  }
  for (const [name, family] of families) if (family.type === 'histogram') checkHistogram(name, family.samples)
  return families
}

function labelsOf(text: string, line: string): Record<string, string> {
  const labels: Record<string, string> = {}
  let rest = text
  while (rest !== '') {
    const [all, name = '', value = ''] = /^([a-zA-Z_]\w*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)/.exec(rest) ?? []
    if (all === undefined || Object.hasOwn(labels, name)) throw new Error(`Labels of: ${line}`)
    labels[name] = value
    rest = rest.slice(all.length)
  }
  return labels
}

/** Checks that bucket counts increase, and that the last bucket has the total count. */
function checkHistogram(name: string, samples: readonly Sample[]): void {
  const series = new Map<string, Sample[]>()
  for (const sample of samples) {
    const { le: _le, ...others } = sample.labels
    const key = JSON.stringify(others)
    series.set(key, [...(series.get(key) ?? []), sample])
  }
  for (const [key, parts] of series) {
    const buckets = parts.filter((part) => part.name === `${name}_bucket`)
    const bounds = buckets.map(({ labels }) => Number(labels['le']?.replace('Inf', 'Infinity')))
    expect(bounds, key).toEqual(bounds.toSorted((a, b) => a - b))
    expect(bounds.at(-1), key).toBe(Infinity)
    const counts = buckets.map(({ value }) => value)
    expect(counts, key).toEqual(counts.toSorted((a, b) => a - b))
    expect(parts.find((part) => part.name === `${name}_count`)?.value, key).toBe(counts.at(-1))
    expect(
      parts.some((part) => part.name === `${name}_sum`),
      key,
    ).toBe(true)
  }
}

function valueOf(families: Map<string, Family>, family: string, labels: Record<string, string> = {}, name = family) {
  const matching = families.get(family)?.samples.filter((sample) => {
    return sample.name === name && Object.entries(labels).every(([key, value]) => sample.labels[key] === value)
  })
  return matching?.reduce((sum, { value }) => sum + value, 0)
}

test('the metrics count events and conform to the Prometheus text format', async () => {
  const { ask, scrape } = await start()
  const before = await scrape()
  expect(valueOf(before, 'tenure_grants_total')).toBe(0)
  expect(valueOf(before, 'tenure_store_healthy')).toBe(1)

  const lead = (group: string, node_id: string, lease_ttl_ms = 30_000) =>
    ask(`/v1/groups/${group}/campaign`, { node_id, lease_ttl_ms })
  await lead('one', 'a')
  await lead('one', 'b')
  await ask('/v1/groups/one/renew', { node_id: 'a', term: 1, extend_by_ms: 30_000 })
  await ask('/v1/groups/one/renew', { node_id: 'b', term: 1, extend_by_ms: 30_000 })
  const item = { group_id: 'one', term: 1, extend_by_ms: 30_000 }
  await ask('/v1/renew', { node_id: 'a', renewals: [item, { ...item, group_id: 'two' }] })
  await ask('/v1/groups/one/resign', { node_id: 'a', term: 1 })
  await lead('short', 'a', 20)
  const { events } = (await ask('/v1/groups/short/watch')) as { events: { leader: unknown }[] }
  // The loss is emitted once it is durable, and is counted from then on.
  if (events[0]?.leader !== null)
    await ask('/v1/groups/short/campaign', { node_id: 'b', lease_ttl_ms: 20, wait_ms: 5_000 })

  const after = await scrape()
  const count = (family: string, labels: Record<string, string> = {}) => valueOf(after, family, labels)
  expect(count('tenure_campaigns_total', { result: 'refused' })).toBe(1)
  expect(count('tenure_renewals_total', { result: 'granted' })).toBe(2)
  expect(count('tenure_renewals_total', { result: 'refused' })).toBe(2)
  expect(count('tenure_terms_ended_total', { reason: 'resigned' })).toBe(1)
  expect(count('tenure_terms_ended_total', { reason: 'expired' })).toBeGreaterThanOrEqual(1)
  expect(count('tenure_grants_total')).toBe(count('tenure_campaigns_total', { result: 'granted' }))
  expect(count('tenure_groups')).toBe(2)
  expect(count('tenure_watchers')).toBe(0)
  const renewals = { route: '/v1/groups/:group_id/renew', status: '200' }
  const latencies = 'tenure_request_duration_seconds'
  expect(valueOf(after, latencies, renewals, `${latencies}_count`)).toBe(1)
  // Grants and ends are writes.
  const writes = 'tenure_store_write_seconds'
  expect(valueOf(after, writes, {}, `${writes}_count`)).toBeGreaterThanOrEqual(4)
  expect(count('tenure_store_write_failures_total')).toBe(0)
  expect(after.has('nodejs_eventloop_lag_seconds')).toBe(true)
})

test('the metrics show the version', async () => {
  const { scrape } = await start()
  const { version } = JSON.parse(readFileSync(join(import.meta.dirname, '../../package.json'), 'utf8')) as Described
  expect((await scrape()).get('tenure_build_info')?.samples).toEqual([
    { name: 'tenure_build_info', labels: { version }, value: 1 },
  ])
})

interface Described {
  readonly version: string
}

test('named groups have their own series', async () => {
  const { ask, scrape } = await start({ metricsGroups: ['payments', 'reports-*'] })
  const campaign = (group: string) => ask(`/v1/groups/${group}/campaign`, { node_id: 'a', lease_ttl_ms: 30_000 })
  for (const group of ['reports-a', 'secret', 'my-reports-a']) await campaign(group)
  const of = (families: Map<string, Family>, group: string) =>
    ['has_leader', 'term', 'lease_remaining_seconds', 'since_change_seconds'].map(
      (name) => families.get(`tenure_group_${name}`)?.samples.find(({ labels }) => labels['group'] === group)?.value,
    )
  const families = await scrape()
  const [payments, reports] = [of(families, 'payments'), of(families, 'reports-a')]
  expect(payments.slice(0, 3)).toEqual([0, 0, 0])
  expect(reports.slice(0, 2)).toEqual([1, 1])
  expect(reports[2]).toBeGreaterThan(20)
  expect(reports[2]).toBeLessThanOrEqual(30)
  expect(reports[3]).toBeLessThan(10)
  expect(families.get('tenure_group_has_leader')?.samples).toHaveLength(2)
  expect(valueOf(families, 'tenure_metrics_groups_left_out')).toBe(0)
  await ask('/v1/groups/reports-a/resign', { node_id: 'a', term: 1 })
  expect(of(await scrape(), 'reports-a').slice(0, 3)).toEqual([0, 1, 0])
})

test('a service without named groups has no series of groups', async () => {
  const { scrape } = await start()
  expect([...(await scrape()).keys()].filter((name) => name.startsWith('tenure_group_'))).toEqual([])
})

test.each([
  { metricsGroups: ['"} 1'], named: String.raw`has "\"} 1"` },
  { metricsGroups: ['pay ments'], named: 'has "pay ments"' },
  { metricsGroups: ['ok', ''], named: 'has ""' },
  { metricsGroups: Array.from({ length: 1_001 }, (_, index) => `g${index}`), named: 'at most 1000' },
  { metricsGroups: 'payments' as unknown as string[], named: 'must be a list of at most 1000 group ids' },
])('metricsGroups is refused if it has an invalid group id or pattern: $named', async ({ metricsGroups, named }) => {
  await expect(start({ metricsGroups })).rejects.toThrow(named)
})

test('no label has a value that a client sent', async () => {
  const { ask, scrape } = await start()
  const told = 'somebody-s-own-word'
  await ask(`/v1/groups/${told}/campaign`, { node_id: told, lease_ttl_ms: 1_000, metadata: { told }, request_id: told })
  await ask(`/v1/groups/${told}/leader`)
  await ask(`/${told}?${told}=${told}`)
  await ask(`/v1/groups/${told}/${told}`, { told })
  const families = await scrape()
  const values = [...families.values()].flatMap(({ samples }) => samples.flatMap(({ labels }) => Object.values(labels)))
  expect(values.length).toBeGreaterThan(50)
  expect(values.filter((value) => value.includes(told))).toEqual([])
})
