/** Shared by the commands that work only with a service. Each prints the answer from the HTTP API, or a table of it. */
import type { ServiceStore } from 'tenure/stores/service'
import type { StoreCredentials } from './arguments/store-settings.ts'
import { callWithTimeout } from './call-with-timeout.ts'
import { printable, formatShortDuration, waitText } from './output.ts'
import type { AnswerFields, Leader } from './service-answers.ts'
import { openChosenService, withStore } from './store.ts'

type Request = Parameters<ServiceStore['request']>[0]

/** Sends a request. `moreMs` extends the timeout of the answer. */
export type SendRequest = (request: Request, moreMs?: number) => Promise<AnswerFields>

/** Opens the chosen service, runs `action` with it, and closes it. */
export async function withService(
  settings: StoreCredentials & { readonly url: string | undefined; readonly timeout: number },
  action: (ask: SendRequest) => Promise<void>,
): Promise<void> {
  const service = await openChosenService(settings)
  await withStore(service, () =>
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
  return printable(
    `${node_id} leads it in term ${term} for another ${formatShortDuration(lease_remaining_ms)} unless it renews`,
  )
}
