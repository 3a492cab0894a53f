/** Starts the service that a suite calls: on a directory, or at the place that {@link servePlace} has set. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { startService, type RunningService, type ServiceOptions } from '../src/index.ts'

/** The options that a case sets for its service. The case does not choose where the data is kept. */
export interface ServeOptions extends Omit<ServiceOptions, 'data' | 'store' | 'advertise' | 'logger'> {
  /** Called with each log line. */
  readonly onLine?: ((line: string) => void) | undefined
}

export interface Served extends Pick<RunningService, 'url' | 'clusterId' | 'reload' | 'close'> {
  /** The URL of each process that answers. */
  readonly entries: readonly string[]
}

/**
 * Which process answers a connection if there are several: any of them, or always the same one. Cases about limits and
 * metrics use one process, because each process has its own limits and metrics.
 */
export type Entry = 'any' | 'one'

export type ServicePlace = (options: ServeOptions, entry: Entry) => Promise<Served>

export function loggerOf(onLine: ServeOptions['onLine']): ServiceOptions['logger'] {
  return onLine && pino({ level: 'info' }, { write: onLine })
}

const onDirectory: ServicePlace = async ({ onLine, ...options }) => {
  const data = mkdtempSync(join(tmpdir(), 'tenure-service-'))
  const remove = () => rmSync(data, { recursive: true, force: true })
  const running = await startService({ data, port: 0, logger: loggerOf(onLine), ...options }).catch(
    (error: unknown) => {
      remove()
      throw error
    },
  )
  return {
    ...running,
    entries: [running.url],
    async close() {
      await running.close()
      remove()
    },
  }
}

let place = onDirectory

/** Starts a service on a free port with its own data. */
export function serve(options: ServeOptions = {}, entry: Entry = 'any'): Promise<Served> {
  return place(options, entry)
}

/** Starts all later services at this place. Without an argument, services run on directories again. */
export function servePlace(other: ServicePlace = onDirectory): void {
  place = other
}

/** Whether the service is a single process. Each case that depends on this says why. */
export function isOneProcess(): boolean {
  return place === onDirectory
}

/** The sum of a metric over all processes. */
export async function figureOf({ entries }: Pick<Served, 'entries'>, name: string): Promise<number> {
  const figures = entries.map(async (url) => {
    const text = await (await fetch(`${url}/metrics`)).text()
    return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1])
  })
  return (await Promise.all(figures)).reduce((sum, figure) => sum + figure)
}
