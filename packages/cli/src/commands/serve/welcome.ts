import type { ServeSettings } from './settings.ts'

/** Returns instructions for trying the service: three calls that work as printed, in this order. */
export function welcome(url: string, place: string, settings: ServeSettings): string {
  const { explicitGroups, jwtKeys, tokenKey, tlsCert, minTtl, maxTtl } = settings
  const head = `Tenure is serving elections on ${url} with its data in ${place}.`
  // With these settings, the calls would need a token, a certificate, or a defined election, none of which exists yet.
  if (jwtKeys !== undefined || tokenKey !== undefined || tlsCert !== undefined || explicitGroups) return `${head}\n`
  const group = `${url}/v1/groups/hello`
  const body = JSON.stringify({ node_id: 'me', lease_ttl_ms: Math.max(minTtl, Math.min(maxTtl, 60_000)) })
  return `${head} Open it in a browser, or try it in another terminal:

  curl -X POST ${group}/campaign -H 'content-type: application/json' -d '${body}'
  curl ${group}/leader
  curl ${group}/watch

The last one is a long poll. With -N -H 'accept: text/event-stream' it shows all changes as they happen.
`
}
