/** The few methods of `@opentelemetry/api` that are used. Its own providers match these types. */

export type Attributes = Record<string, string | number>

/** A provider of meters, such as the `MeterProvider` of `@opentelemetry/api`. */
export interface TelemetryMeterProvider {
  getMeter(name: string): TelemetryMeter
}

/** Creates instruments. */
export interface TelemetryMeter {
  createHistogram(name: string, options: HistogramOptions): { record(value: number, attributes: Attributes): void }
  createObservableCounter(name: string, options: InstrumentOptions): TelemetryObservable
  createObservableGauge(name: string, options: InstrumentOptions): TelemetryObservable
}

interface InstrumentOptions {
  readonly description: string
  readonly unit: string
}

interface HistogramOptions extends InstrumentOptions {
  readonly advice: { explicitBucketBoundaries: number[] }
}

/** An instrument that is read on each collection. */
export interface TelemetryObservable {
  addCallback(callback: (result: { observe(value: number, attributes: Attributes): void }) => void): void
}

/** A provider of tracers, such as the `TracerProvider` of `@opentelemetry/api`. */
export interface TelemetryTracerProvider {
  getTracer(name: string): TelemetryTracer
}

/** Starts spans. */
export interface TelemetryTracer {
  startSpan(name: string, options: SpanOptions): TelemetrySpan
}

interface SpanOptions {
  readonly kind: number
  readonly root: boolean
  readonly startTime: number
  readonly attributes: Attributes
}

/** A span that was started. */
export interface TelemetrySpan {
  setAttribute(key: string, value: string | number): unknown
  setStatus(status: { code: number; message: string }): unknown
  addEvent(name: string, attributes: Attributes, time: number): unknown
  end(time: number): void
}

/** The values that OpenTelemetry defines. */
export const spanKinds = { internal: 0, client: 2 } as const
export const errorStatus = 2
