import type { ElectionMetrics } from 'tenure'
import { familyText } from '@tenure/internal/prometheus'
import type { ListenAddress } from './arguments/addresses.ts'
import { listen, type ServerReply, type RunningServer } from './small-server.ts'
import { versionOf } from './version.ts'

/** Returns the metrics, with the version of Tenure, as a reply. */
export function metricsReply(metrics: ElectionMetrics): ServerReply {
  const labels = { version: versionOf() }
  const build = familyText('tenure_build_info', 'gauge', 'The version of Tenure that is running.', [
    { labels, value: 1 },
  ])
  return { status: 200, contentType: metrics.contentType, text: build + metrics.text() }
}

/** Starts a server for `--metrics` that serves nothing else. Resolves to undefined if the option is not set. */
export async function serveMetrics(
  what: string,
  {
    metrics: address,
    allowedHost,
  }: { readonly metrics: ListenAddress | undefined; readonly allowedHost: readonly string[] },
  metrics: ElectionMetrics,
): Promise<RunningServer | undefined> {
  if (!address) return undefined
  const replies = { '/metrics': () => metricsReply(metrics) }
  return listen({ what, listen: address, flag: '--metrics', allowedHost, replies })
}
