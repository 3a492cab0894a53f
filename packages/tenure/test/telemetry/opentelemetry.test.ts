/** Tests `tenure/telemetry` with the real OpenTelemetry SDK and exporters that keep their output in memory. */
import { metrics, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import { PrometheusExporter, PrometheusSerializer } from '@opentelemetry/exporter-prometheus'
import { MeterProvider } from '@opentelemetry/sdk-metrics'
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'
import { expect, onTestFinished, test } from 'vitest'
import { Elector } from '../../src/engine/elector.ts'
import { rememberOrigin } from '../../src/engine/guard/store-origin.ts'
import { createShards } from '../../src/shards/index.ts'
import { electionMetrics } from '../../src/telemetry/metrics.ts'
import { memoryStore } from '../../src/stores/memory/index.ts'
import { errorStatus, spanKinds } from '../../src/telemetry/api.ts'
import { electionTelemetry } from '../../src/telemetry/index.ts'
import { fakeClock } from '../../../testing/src/index.ts'
import { ModelGuard } from '../../../testing/src/simulation/explore/guard-model.ts'
import { faultyStore } from '../faulty-store.ts'

function sdk() {
  const reader = new PrometheusExporter({ preventServerStart: true })
  const exporter = new InMemorySpanExporter()
  const meterProvider = new MeterProvider({ readers: [reader] })
  const tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] })
  onTestFinished(async () => {
    await meterProvider.shutdown()
    await tracerProvider.shutdown()
  })
  return {
    meterProvider,
    tracerProvider,
    spans: () => exporter.getFinishedSpans(),
    /** The metrics in the format of a Prometheus exporter, without the labels that the exporter adds. */
    async text() {
      const { resourceMetrics } = await reader.collect()
      const text = new PrometheusSerializer('', false, undefined, true, true).serialize(resourceMetrics)
      return text.replaceAll(/,?otel_scope_\w+="[^"]*",?/g, '')
    },
  }
}

function scene(election = 'my-app') {
  const clock = fakeClock()
  const shared = memoryStore({ clock })
  const otel = sdk()
  const { meterProvider, tracerProvider } = otel
  const telemetry = electionTelemetry({ meterProvider, tracerProvider, clock })
  const plain = electionMetrics({ clock })
  const observer = {
    onEvent(event: Parameters<typeof telemetry.onEvent>[0]) {
      telemetry.onEvent(event)
      plain.onEvent(event)
    },
    onCall(call: Parameters<typeof telemetry.onCall>[0]) {
      telemetry.onCall(call)
      plain.onCall(call)
    },
    onShard(event: Parameters<typeof telemetry.onShard>[0]) {
      telemetry.onShard(event)
      plain.onShard(event)
    },
    onAssignment(report: Parameters<typeof telemetry.onAssignment>[0]) {
      telemetry.onAssignment(report)
      plain.onAssignment(report)
    },
  }
  const start = (identity: string, eligible = () => true) => {
    const store = Object.assign(faultyStore(shared, clock), { namespace: 'jobs' })
    rememberOrigin(store, { url: 'simulated:', isSlow: false, link: new ModelGuard([]) })
    const options = {
      store,
      election,
      identity,
      leaseDurationMs: 15_000,
      releaseOnCrash: true,
      present: true,
      eligible,
    }
    const elector = new Elector({ ...options, clock, observer })
    elector.start()
    return { elector, store }
  }
  const share = (identity: string) => {
    const store = Object.assign(faultyStore(shared, clock), { namespace: 'jobs' })
    const shards = createShards({ store, group: 'rooms', names: ['red', 'blue'], identity, clock, observer })
    void shards.start()
    return { shards, store }
  }
  return { clock, otel, plain, start, share }
}

/** The values of one metric family, `name{labels} value`, by their labels. */
function samplesOf(text: string, name: string): Map<string, number> {
  const lines = text.split('\n').filter((line) => line.startsWith(`${name}{`))
  return new Map(
    lines.map((line) => {
      const [, labels = '', value] = /^\w+\{(.*)\} (\S+)/.exec(line) ?? []
      return [labels.split(',').toSorted().join(','), Number(value)]
    }),
  )
}

test('metrics have the names, labels, and values of electionMetrics() when exported to Prometheus', async () => {
  const { clock, otel, plain, start, share } = scene()
  const { shards } = share('s')
  let isEligible = false
  const { elector, store } = start('a', () => isEligible)
  await clock.advance(20_000)
  isEligible = true
  await clock.advance(20_000)
  store.fault = (verb) => (verb === 'renew' ? 'error' : undefined)
  await clock.advance(60_000)
  store.fault = () => undefined
  await clock.advance(60_000)
  const exported = await otel.text()
  const shown = plain.text()
  const families = [...shown.matchAll(/^# TYPE (\w+) (\w+)$/gm)]
  expect(families.length).toBeGreaterThan(5)
  for (const [, name = '', type = ''] of families) {
    // Both a histogram and a summary have sum and count. This exporter omits the unit, which others append to the name.
    const isSummary = type === 'summary'
    const isTime = name.endsWith('_seconds')
    const short = isTime ? name.replace(/_seconds$/, '') : name
    expect(exported).toContain(`# TYPE ${short} ${isSummary ? 'histogram' : type}\n`)
    expect(exported.includes(`# UNIT ${short} s\n`) || !isTime).toBe(true)
    for (const suffix of isSummary ? ['_sum', '_count'] : ['']) {
      const expected = samplesOf(shown, name + suffix)
      expect(expected.size, name).toBeGreaterThan(0)
      const given = samplesOf(exported, short + suffix)
      expect([...given.keys()].toSorted(), name).toEqual([...expected.keys()].toSorted())
      for (const [labels, value] of expected) expect(given.get(labels), `${name} ${labels}`).toBeCloseTo(value, 6)
    }
  }
  await Promise.all([elector.stop(), shards.stop()])
})

test('each call is a span with its duration, and a failed call has its error', async () => {
  const { clock, otel, start } = scene()
  const { elector, store } = start('a')
  await clock.advance(6_000)
  store.fault = (verb) => (verb === 'renew' ? 'error' : undefined)
  await clock.advance(5_000)
  const ofVerb = (verb: string) => otel.spans().filter(({ name }) => name === `tenure ${verb}`)
  const origin = { 'tenure.election': 'my-app', 'tenure.namespace': 'jobs', 'tenure.identity': 'a' }
  const [acquire] = ofVerb('acquire')
  expect(acquire).toMatchObject({
    kind: SpanKind.CLIENT,
    attributes: { ...origin, 'tenure.verb': 'acquire', 'tenure.result': 'ok' },
    status: { code: SpanStatusCode.UNSET },
  })
  expect(acquire?.instrumentationScope.name).toBe('tenure')
  const failed = ofVerb('renew').filter(({ attributes }) => attributes['tenure.result'] === 'failed')
  expect(failed.length).toBeGreaterThan(0)
  expect(failed[0]).toMatchObject({
    attributes: { ...origin, 'error.type': 'OTHER' },
    status: { code: SpanStatusCode.ERROR, message: expect.stringMatching(/\S/) as string },
  })
  // Each span has its own trace, regardless of the context that was active when the elector started.
  const traces = otel.spans().map((span) => span.spanContext().traceId)
  expect(new Set(traces).size).toBe(traces.length)
  expect(otel.spans().every(({ parentSpanContext }) => parentSpanContext === undefined)).toBe(true)
  await elector.stop()
})

test('the span of a slow call begins when the call was sent', async () => {
  const { clock, otel, start } = scene()
  const { elector, store } = start('a')
  await clock.advance(1_000)
  store.fault = (verb) => (verb === 'renew' ? 'request-lost' : undefined)
  await clock.advance(9_000)
  const [span] = otel
    .spans()
    .filter(({ name, attributes }) => name === 'tenure renew' && attributes['tenure.result'] === 'failed')
  const [seconds = 0, nanoseconds = 0] = span?.duration ?? []
  expect(seconds + nanoseconds / 1e9).toBeGreaterThan(1)
  expect(span?.attributes['error.type']).toBe('TIMEOUT')
  const stopped = elector.stop()
  await clock.advance(60_000)
  await stopped
})

test('a term is a span from its start to its end with the events in between, and events outside a term are spans too', async () => {
  const { clock, otel, start } = scene()
  const { elector, store } = start('a')
  await clock.advance(6_000)
  const term = () => otel.spans().find(({ name }) => name === 'tenure term')
  expect(term()).toBeUndefined()
  store.fault = (verb) => (verb === 'renew' ? 'error' : undefined)
  await clock.advance(20_000)
  expect(term()).toMatchObject({
    kind: SpanKind.INTERNAL,
    attributes: { 'tenure.election': 'my-app', 'tenure.identity': 'a', 'tenure.term': 1, 'tenure.reason': 'expired' },
  })
  const names = term()?.events.map(({ name }) => name) ?? []
  expect(names.slice(0, 2)).toEqual(['tenure.renew-failed', 'tenure.renew-failed'])
  expect(names.at(-1)).toBe('tenure.lost')
  const [first] = otel.spans().filter(({ name }) => name === 'tenure new-leader')
  expect(first).toMatchObject({ attributes: { 'tenure.leader': 'a', 'tenure.term': 1 }, duration: [0, 0] })
  await elector.stop()
})

test('an owned shard is a span from its gain to its loss, with its token and the reason', async () => {
  const { clock, otel, share } = scene()
  const first = share('a')
  await clock.advance(30_000)
  const spans = () => otel.spans().filter(({ name }) => name === 'tenure shard')
  expect(spans()).toEqual([])
  const second = share('b')
  await clock.advance(40_000)
  const [moved] = spans()
  expect(spans()).toHaveLength(1)
  expect(moved?.attributes).toMatchObject({
    'tenure.election': 'rooms',
    'tenure.namespace': 'jobs',
    'tenure.identity': 'a',
    'tenure.shard': expect.stringMatching(/^(red|blue)$/) as string,
    'tenure.token': expect.any(Number) as number,
    'tenure.reason': 'handed-over',
  })
  expect(moved?.events.map(({ name }) => name)).toEqual(['tenure.revoked'])
  second.store.fault = () => 'request-lost'
  await clock.advance(60_000)
  expect(spans().map(({ attributes }) => [attributes['tenure.identity'], attributes['tenure.reason']])).toEqual([
    ['a', 'handed-over'],
    ['b', 'seat-lost'],
  ])
  const errors = otel.spans().filter(({ name, attributes }) => name === 'tenure error' && 'error.type' in attributes)
  expect(errors.map(({ attributes }) => attributes['error.type'])).toContain('LEADERSHIP_LOST')
  second.store.fault = () => undefined
  const stopped = Promise.all([first.shards.stop(), second.shards.stop()])
  await clock.advance(60_000)
  await stopped
})

test('hostile names are escaped in labels', async () => {
  const { clock, otel, start } = scene('a"} 1\\')
  const { elector } = start('x')
  await clock.advance(1_000)
  expect(await otel.text()).toContain(
    String.raw`leader_election_master_status{name="a\"} 1\\",lease_namespace="jobs"} 1`,
  )
  await elector.stop()
})

test('electionTelemetry uses the global OpenTelemetry providers by default', async () => {
  const otel = sdk()
  metrics.setGlobalMeterProvider(otel.meterProvider)
  trace.setGlobalTracerProvider(otel.tracerProvider)
  onTestFinished(() => {
    metrics.disable()
    trace.disable()
  })
  const clock = fakeClock()
  const elector = new Elector({
    store: memoryStore({ clock }),
    election: 'e',
    clock,
    observer: electionTelemetry({ clock }),
  })
  elector.start()
  await clock.advance(1_000)
  expect(await otel.text()).toContain('leader_election_master_status{name="e"} 1')
  expect(otel.spans().map(({ name }) => name)).toContain('tenure acquire')
  await elector.stop()
})

test('the OpenTelemetry constants equal those of the real package', () => {
  expect(spanKinds).toEqual({ internal: SpanKind.INTERNAL, client: SpanKind.CLIENT })
  expect(errorStatus).toBe(SpanStatusCode.ERROR)
})

test('electionTelemetry rejects an unknown option', () => {
  expect(() => electionTelemetry({ meter: 1 } as never)).toThrow(/meter/)
})
