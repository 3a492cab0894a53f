import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isOneProcess, serve, type Entry, type Served, type ServeOptions } from '../service-under-test.ts'

/** A service with a directory for its data and for the files that it reads. */
export interface TestService {
  readonly running: Served
  readonly url: string
  /** The log lines of the service. */
  readonly log: string[]
  /** Writes a file into the directory and returns its path. */
  write(name: string, content: unknown): string
  close(): Promise<void>
}

/** Starts the service. `optionsOf` may write the files that the options name. */
export async function startTestService(
  optionsOf: (write: TestService['write']) => ServeOptions,
  entry: Entry = 'any',
): Promise<TestService> {
  const directory = mkdtempSync(join(tmpdir(), 'tenure-auth-'))
  const write = (name: string, content: unknown) => {
    const path = join(directory, name)
    writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content))
    return path
  }
  const log: string[] = []
  try {
    const options = optionsOf(write)
    const running = await serve({ onLine: (line) => void log.push(line), ...options }, entry)
    const close = async () => {
      await running.close()
      rmSync(directory, { recursive: true })
    }
    return { running, url: running.url, log, write, close }
  } catch (error) {
    rmSync(directory, { recursive: true, force: true })
    throw error
  }
}

export interface Answer {
  readonly status: number
  readonly headers: Headers
  // The shape differs by route. Each test specifies what it expects.
  readonly body: Record<string, unknown>
}

/** Sends a request with a token. */
export async function ask(
  url: string,
  token: string | undefined,
  method: string,
  path: string,
  body?: unknown,
): Promise<Answer> {
  const response = await fetch(url + path, {
    method,
    headers: {
      // A dedicated connection, so that any process may answer.
      ...(!isOneProcess() && { connection: 'close' }),
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  const isJson = response.headers.get('content-type')?.includes('json') && text !== ''
  const { status, headers } = response
  return { status, headers, body: isJson ? (JSON.parse(text) as Record<string, unknown>) : { text } }
}
