import type { WatchEvent } from '../model/answers.ts'
import { EventLines } from '../model/event-lines.ts'
import { Refused, type Api } from './api.ts'
import { after, jitter, pause } from './clock.ts'

/** The server says something at least every 15 s. */
const silentMs = 25_000
const longestPauseMs = 8_000

export interface StreamEvents {
  /** It is open, and what comes first is the present state of every group. */
  onOpen(): void
  onEvent(event: WatchEvent): void
  /** It is broken off, and tried again; unless the caller is not known or may not see it. */
  onBreak(failure: Refused): void
}

/** Follows some groups until the signal aborts, over as many connections as it takes. */
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
    // Asking again would be answered in the same way.
    if (failure.status === 401 || failure.status === 403) return
    failures += 1
    await pause(jitter(Math.min(longestPauseMs, 250 * 2 ** failures)), signal)
  }
}

/** Reads until the connection ends or falls silent. Returns why. */
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
      if (done) return new Refused(0, 'The server has ended the stream.')
      cancel()
      cancel = after(silentMs, () => silent.abort())
      for (const data of lines.take(decoder.decode(value, { stream: true }))) onEvent(JSON.parse(data) as WatchEvent)
    }
  } catch (error) {
    if (error instanceof Refused) return error
    return new Refused(0, silent.signal.aborted ? 'The server has fallen silent.' : 'The connection has broken off.')
  } finally {
    cancel()
  }
}
