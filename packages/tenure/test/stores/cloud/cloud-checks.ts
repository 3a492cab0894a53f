import { ok } from 'node:assert/strict'
import type { RunningServer } from '../../../../../test/servers/server.ts'
import type { AcquireClaim, LeaseRecord, LeaseStore, Outcome } from '../../../src/engine/lease-store.ts'
import { startFaultProxy, type FaultProxy } from './fault-proxy.ts'

interface OpenOptions {
  /** The URL of the server. */
  readonly url?: string
  /** Runs before each write of DynamoDB is sent. */
  readonly beforePut?: () => unknown
}

/** A cloud store or a mutant of it, on a server, with its own prefix or table. */
export interface Library<Options> {
  readonly server: RunningServer
  open(options?: Partial<Options> & OpenOptions): LeaseStore
  remove(election: string): Promise<void>
}

/** Checks that supplement the conformance suite. */
export type Checks<Options> = Readonly<Record<string, (library: Library<Options>) => Promise<void>>>

const { signal } = new AbortController()
export const call = { signal, timeoutMs: 10_000 }
let claims = 0

export function claimOf(change: Partial<AcquireClaim> = {}): AcquireClaim {
  const attempt = `attempt-${++claims}`
  return { election: attempt, holder: 'ada', attempt, leaseDurationMs: 15_000, afterTerm: 0, metadata: {}, ...change }
}

export function granted(outcome: Outcome): LeaseRecord {
  ok(outcome.ok)
  return outcome.record
}

/** Runs `action` with a proxy in front of the server. */
export async function withFaultProxy(
  { server }: Pick<Library<unknown>, 'server'>,
  action: (front: FaultProxy) => Promise<void>,
): Promise<void> {
  const front = await startFaultProxy(server.url)
  try {
    await action(front)
  } finally {
    front.close()
  }
}

/** The error code with which a call ends: `answered` if it succeeds, `hangs` if it does not end. */
export async function codeOf(answer: Promise<unknown>, withinMs = 5_000): Promise<unknown> {
  let timer: NodeJS.Timeout | undefined
  const hangs = new Promise<string>((resolve) => {
    timer = setTimeout(resolve, withinMs, 'hangs')
  })
  const ended = answer.then(
    () => 'answered',
    (error: { code?: unknown }) => error.code,
  )
  return Promise.race([ended, hangs]).finally(() => clearTimeout(timer))
}
