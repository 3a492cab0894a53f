/** The Grafana dashboard: each of its queries, run by a Prometheus that scrapes a service and a program. */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { Elector } from '../../packages/tenure/src/engine/elector.ts'
import { createJobs } from '../../packages/tenure/src/jobs/index.ts'
import { createShards } from '../../packages/tenure/src/shards/index.ts'
import { memoryStore } from '../../packages/tenure/src/stores/memory/index.ts'
import { serviceStore } from '../../packages/tenure/src/stores/service/index.ts'
import { electionMetrics } from '../../packages/tenure/src/telemetry/metrics.ts'
import { root } from '../documents.ts'
import { programs } from '../servers/programs.ts'
import { prometheusWith } from '../servers/prometheus.ts'
import { start } from '../servers/server.ts'
import { describeWithPrograms } from '../servers/suite.ts'
import { serve } from './serve.ts'

interface Target {
  readonly refId: string
  readonly expr: string
  readonly datasource: { readonly type: string; readonly uid: string }
}

interface Panel {
  readonly id: number
  readonly type: string
  readonly title: string
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number }
  readonly datasource?: Target['datasource']
  readonly targets?: readonly Target[]
}

interface Variable {
  readonly name: string
  readonly type: string
  readonly definition?: string
}

interface Dashboard {
  readonly uid: string
  readonly title: string
  readonly schemaVersion: number
  readonly panels: readonly Panel[]
  readonly templating: { readonly list: readonly Variable[] }
}

const dashboard = JSON.parse(readFileSync(join(root, 'deploy/grafana/dashboard.json'), 'utf8')) as Dashboard
const variables = dashboard.templating.list
const targets = dashboard.panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ title, expr })))
const patience = { timeout: 60_000, interval: 250 }

/** The query as Grafana sends it when "All" is chosen. The time between two points is that of the test's scrapes. */
function filled(expr: string): string {
  return expr
    .replaceAll('$__rate_interval', '20s')
    .replaceAll(/\$(\w+)/g, (whole, name: string) => (variables.some((one) => one.name === name) ? '.*' : whole))
}

/** A program with an election, a group of shards and a job, whose metrics are served at the returned address. */
async function program(): Promise<string> {
  const metrics = electionMetrics()
  const store = memoryStore()
  const observed = { store, observer: metrics, log: false, leaseDurationMs: 3_000 } as const
  const elector = new Elector({ ...observed, election: 'payments', present: true })
  const lost = new Elector({ ...observed, election: 'mail', store: serviceStore({ url: 'http://127.0.0.1:1' }) })
  const handedOver = new Elector({ ...observed, election: 'backup' })
  elector.start()
  lost.start()
  handedOver.start()
  const jobs = createJobs({ store, observer: metrics, log: false })
  jobs.every({ seconds: 1 }, { name: 'report' }, async () => {})
  const shards = createShards({
    ...observed,
    group: 'sessions',
    shards: 4,
    work: ({ signal }) => once(signal, 'abort').then(() => {}),
  })
  await shards.start()
  await handedOver.waitForLeadership()
  await handedOver.stepDown({ cooldownMs: 0 })
  const server = createServer((_, response) => {
    response.setHeader('content-type', metrics.contentType).end(metrics.text())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(async () => {
    server.close()
    server.closeAllConnections()
    await Promise.all([elector.stop(), lost.stop(), handedOver.stop(), jobs.close(), shards.stop()])
  })
  return `127.0.0.1:${(server.address() as AddressInfo).port}`
}

test('the dashboard has one variable for the data source, and every panel and query uses it', () => {
  expect(variables.filter(({ type }) => type === 'datasource').map(({ name }) => name)).toEqual(['datasource'])
  const uids = dashboard.panels.flatMap((panel) =>
    panel.type === 'row'
      ? []
      : [panel.datasource?.uid, ...(panel.targets ?? []).map(({ datasource }) => datasource.uid)],
  )
  expect(uids.length).toBeGreaterThan(60)
  expect(new Set(uids)).toEqual(new Set(['${datasource}']))
})

test('every panel of the dashboard has its own id, a title, a query, and its own place', () => {
  const { panels } = dashboard
  expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length)
  for (const { type, title, targets: own = [] } of panels) {
    expect(title).not.toBe('')
    expect(own.length > 0, title).toBe(type !== 'row')
    expect(new Set(own.map(({ refId }) => refId)).size, title).toBe(own.length)
  }
  const overlap = (a: Panel, b: Panel) =>
    a.gridPos.x < b.gridPos.x + b.gridPos.w &&
    b.gridPos.x < a.gridPos.x + a.gridPos.w &&
    a.gridPos.y < b.gridPos.y + b.gridPos.h &&
    b.gridPos.y < a.gridPos.y + a.gridPos.h
  const pairs = panels.flatMap((a, index) => panels.slice(index + 1).filter((b) => overlap(a, b)))
  expect(pairs.map(({ title }) => title)).toEqual([])
})

describeWithPrograms([programs.prometheus], 'the dashboard on a Prometheus', () => {
  test('every query of the dashboard returns data, and a misspelled one does not', { timeout: 180_000 }, async () => {
    const service = await serve('--metrics-groups', 'payments')
    onTestFinished(() => service.stop())
    const scraped = { service: `127.0.0.1:${service.port}`, program: await program() }
    const prometheus = await start(prometheusWith({ rules: [], targets: scraped }))
    onTestFinished(() => prometheus.stop())
    const store = serviceStore({ url: service.url })
    const served = new Elector({ store, election: 'payments', leaseDurationMs: 5_000, log: false })
    served.start()
    onTestFinished(async () => {
      await served.stop()
      await store.close?.()
    })
    const samples = async (query: string) => {
      const answer = await fetch(`${prometheus.url}/api/v1/query?query=${encodeURIComponent(query)}`)
      const { data, error } = (await answer.json()) as {
        data?: { result: { value: [number, string] }[] }
        error?: string
      }
      expect(error, query).toBeUndefined()
      return (data?.result ?? []).map(({ value }) => Number(value[1])).filter(Number.isFinite)
    }
    const campaign = async () => {
      const ask = (verb: string, body: object) =>
        fetch(`${service.url}/v1/groups/busy/${verb}`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ node_id: 'a', ...body }),
        })
      const granted = await ask('campaign', { lease_ttl_ms: 60_000 })
      const { leader } = (await granted.json()) as { leader: { term: number } }
      await ask('resign', { term: leader.term })
    }
    const withoutData = async () => {
      // The rate of writes needs writes within the interval.
      await campaign()
      const found = await Promise.all(
        targets.map(async (one) => ({ ...one, count: (await samples(filled(one.expr))).length })),
      )
      return found.filter(({ count }) => count === 0).map(({ title, expr }) => `${title}: ${expr}`)
    }
    expect(targets.length).toBeGreaterThan(35)
    await expect.poll(withoutData, patience).toEqual([])

    expect(await samples('sum by (name) (leader_election_master_status{name=~"payments"})')).toEqual([1])
    expect(await samples('sum by (election) (tenure_term_misspelled)')).toEqual([])
    for (const { name, definition } of variables.filter(({ type }) => type === 'query')) {
      const [, metric = '', label = ''] = /^label_values\((\w+), (\w+)\)$/.exec(definition ?? '') ?? []
      expect(await samples(`${metric}{${label}!=""}`), name).not.toEqual([])
    }
  })
})
