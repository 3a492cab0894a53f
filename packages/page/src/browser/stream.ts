import type { PageEvent } from '../model/answers.ts'
import { EventLines } from '../model/event-lines.ts'
import { Refused, type Api } from './api.ts'
import { after, jitter, pause } from './clock.ts'

/** The server sends something at least every 15 s. */
const silentMs = 25_000
const longestPauseMs = 8_000

export interface StreamEvents {
  /** The stream is open. The first events are the current state of every group. */
  onOpen(): void
  onEvent(event: PageEvent): void
  /** The stream has ended and will be retried, unless the caller is unauthenticated or lacks the right. */
  onBreak(failure: Refused): void
}

/** Follows some groups until the signal aborts. It reconnects as often as needed. */
export async function follow(
  api: Api,
  groups: readonly string[],
  { onOpen, onEvent, onBreak }: StreamEvents,
  signal: AbortSignal,
): Promise<void> {
  let failures = 0
  const open = () => {
    failures = 0
    onOpen()
  }
  while (!signal.aborted) {
    const failure = await readOnce(api, groups, { onOpen: open, onEvent }, signal)
    if (signal.aborted) return
    onBreak(failure)
    // Retrying would get the same answer.
    if (failure.status === 401 || failure.status === 403) return
    failures += 1
    await pause(jitter(Math.min(longestPauseMs, 250 * 2 ** failures)), signal)
  }
}

/** Reads until the connection ends or is silent for too long. Returns the reason. */
async function readOnce(
  api: Api,
  groups: readonly string[],
  { onOpen, onEvent }: Pick<StreamEvents, 'onOpen' | 'onEvent'>,
  signal: AbortSignal,
): Promise<Refused> {
  const silent = new AbortController()
  const either = AbortSignal.any([signal, silent.signal])
  let cancel = after(silentMs, () => silent.abort())
  try {
    const body = await api.stream(groups, either)
    const reader = body.getReader()
    const decoder = new TextDecoder()
    const lines = new EventLines()
    onOpen()
    for (;;) {
      const { value, done } = await reader.read()
      if (done) return new Refused(0, 'The server ended the stream.')
      cancel()
      cancel = after(silentMs, () => silent.abort())
      for (const data of lines.take(decoder.decode(value, { stream: true }))) onEvent(JSON.parse(data) as PageEvent)
    }
  } catch (error) {
    if (error instanceof Refused) return error
    return new Refused(0, silent.signal.aborted ? 'The server stopped sending.' : 'The connection was lost.')
  } finally {
    cancel()
  }
}
