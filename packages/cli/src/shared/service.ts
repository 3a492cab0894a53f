/** Shared by the commands that only a service can answer. Each prints the answer of the HTTP API, or a table of it. */
import type { ServiceStore } from 'tenure/stores/service'
import type { Credentials } from './arguments/store-settings.ts'
import { callWithTimeout } from './calls.ts'
import { printable, shortTime, waitText } from './output.ts'
import type { Fields, Leader } from './service-answers.ts'
import { openChosenService, whileOpen } from './store.ts'

type Request = Parameters<ServiceStore['request']>[0]

/** Sends a request. `moreMs` extends the timeout for its answer. */
export type Ask = (request: Request, moreMs?: number) => Promise<Fields>

/** Opens the chosen service, runs `action` with it, and closes it. */
export async function asking(
  settings: Credentials & { readonly url: string | undefined; readonly timeout: number },
  action: (ask: Ask) => Promise<void>,
): Promise<void> {
  const service = await openChosenService(settings)
  await whileOpen(service, () =>
    action((request, moreMs = 0) =>
      callWithTimeout(settings.timeout + moreMs, (call) => service.request(request, call)),
    ),
  )
}

export function groupPath(group: string): string {
  return `/v1/groups/${encodeURIComponent(group)}`
}

export function holderText(leader: Leader | null, retryAfterMs: unknown): string {
  if (!leader) return `nobody leads it${waitText(retryAfterMs)}`
  const { node_id, term, lease_remaining_ms } = leader
  return printable(`${node_id} leads it in term ${term} for ${shortTime(lease_remaining_ms)} unless it renews`)
}
