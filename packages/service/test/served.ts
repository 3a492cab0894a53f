/** The service that a suite asks: on a directory, or wherever else its cases are to hold. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { startService, type RunningService, type ServiceOptions } from '../src/index.ts'

/** What a case says of its service. Where its data are is not its business. */
export interface ServeOptions extends Omit<ServiceOptions, 'data' | 'store' | 'advertise' | 'logger'> {
  /** Called with each line that it logs. */
  readonly onLine?: ((line: string) => void) | undefined
}

export interface Served extends Pick<RunningService, 'url' | 'clusterId' | 'reload' | 'close'> {
  /** The URL of each process that answers. */
  readonly entries: readonly string[]
}

/**
 * By which process connections are answered where there are several: by any of them, or all by one, for cases about what
 * each has for itself, such as limits and figures.
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

/** Starts a service on a free port, with data of its own. */
export function serve(options: ServeOptions = {}, entry: Entry = 'any'): Promise<Served> {
  return place(options, entry)
}

/** From now on services are started there; without an argument, on directories again. */
export function servePlace(other: ServicePlace = onDirectory): void {
  place = other
}

/** For cases that hold for one process alone. Each says why. */
export function isOneProcess(): boolean {
  return place === onDirectory
}

/** A figure of all processes together. */
export async function figureOf({ entries }: Pick<Served, 'entries'>, name: string): Promise<number> {
  const figures = entries.map(async (url) => {
    const text = await (await fetch(`${url}/metrics`)).text()
    return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1])
  })
  return (await Promise.all(figures)).reduce((sum, figure) => sum + figure)
}
